//! Sizes as this API writes them: the exact value in the largest unit that needs no more than three decimals.

use byte_unit::Byte;

/// `0 B`, `68 B`, `1 KiB`, `1.5 KB`, `10 KB`: exact, decimal or binary unit, whichever is larger.
pub fn size_text(bytes: u64) -> String {
    format!("{:#}", Byte::from_u64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_exact_unit() {
        let cases = [
            (0, "0 B"),
            (1, "1 B"),
            (68, "68 B"),
            (999, "999 B"),
            (1000, "1 KB"),
            (1024, "1 KiB"),
            (1500, "1.5 KB"),
            (1536, "1.5 KiB"),
            (1001, "1.001 KB"),
            (10_000, "10 KB"),
            (1_000_000, "1 MB"),
            (1 << 20, "1 MiB"),
            (1_234_567, "1234.567 KB"),
            (1 << 30, "1 GiB"),
            (25_165_824, "24 MiB"),
            (u64::MAX, "18446744073709551.615 KB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size_text(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn the_text_is_exact() {
        for bytes in [0u64, 7, 1023, 1025, 4095, 123_456_789, 987_654_321_000, (1 << 40) + 512, u64::MAX] {
            assert_eq!(Byte::parse_str(size_text(bytes), false).unwrap().as_u64(), bytes);
        }
    }
}
