//! How handlers take a request apart. Unlike the framework's own extractors these answer in the error shape of this
//! API, and never with the name of a type in this program.

pub mod authenticated;
pub mod body;
pub mod path;
pub mod query;

pub use authenticated::Authenticated;
pub use body::{Json, RawJson};
pub use path::{ConsumerPath, StreamPath, TopicPath};
pub use query::{Query, ReadQuery};

/// Puts what a deserialiser complains about into words that a caller of an HTTP API understands.
pub(crate) fn plain(complaint: &str) -> String {
    const EXPECTED: &str = "expected ";
    let Some(at) = complaint.rfind(EXPECTED) else { return complaint.to_owned() };
    let (before, expected) = complaint.split_at(at + EXPECTED.len());
    let word_end = expected.find([',', ' ', '<']).unwrap_or(expected.len());
    let (word, rest) = expected.split_at(word_end);
    let plain = match word {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number that is not negative and fits",
        "i8" | "i16" | "i32" | "i64" | "i128" => "a whole number that fits",
        "f32" | "f64" => "a number",
        "struct" | "map" => return format!("{before}an object"),
        _ => return format!("{before}{}", expected.replace("a map", "an object").replace("a sequence", "a list")),
    };
    format!("{before}{plain}{rest}")
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn complaints_name_no_types() {
        let cases = [
            (
                "invalid type: string \"tank\", expected u64",
                "invalid type: string \"tank\", expected a whole number that is not negative and fits",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "invalid value: integer `-1`, expected a whole number that is not negative and fits",
            ),
            ("invalid type: null, expected struct CreateStream", "invalid type: null, expected an object"),
            ("invalid type: integer `1`, expected a sequence", "invalid type: integer `1`, expected a list"),
            ("missing field `name`", "missing field `name`"),
            ("invalid type: integer `1`, expected a string", "invalid type: integer `1`, expected a string"),
        ];
        for (complaint, expected) in cases {
            assert_eq!(plain(complaint), expected);
        }
    }
}
