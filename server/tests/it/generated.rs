//! Files that are generated from the table of settings. `UPDATE_EXPECT=1` writes them anew.

use std::path::{Path, PathBuf};
use whippet::config::Config;
use whippet::config::document::{default_file, markdown_table};
use whippet::config::raw::{Inputs, RawConfig, Source};

const TABLE_START: &str = "<!-- settings -->\n";
const TABLE_END: &str = "<!-- end of settings -->";

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(relative)
}

#[track_caller]
fn expect_file(relative: &str, expected: &str) {
    let path = path(relative);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, expected).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{relative} is not what the settings say; run: UPDATE_EXPECT=1 cargo test -p whippet");
}

#[test]
fn the_default_file_is_generated() {
    expect_file("configs/whippet.toml", &default_file());
}

#[test]
fn the_default_file_parses_to_the_defaults() {
    let inputs = Inputs { file: Some(path("configs/whippet.toml")), ..Inputs::default() };
    let (_, raw) = Config::load(&inputs).expect("a good configuration");
    for (entry, default) in raw.entries().iter().zip(RawConfig::defaults().entries()) {
        let key = entry.setting.key;
        assert_eq!(entry.value, default.value, "{key}");
        assert!(matches!(entry.source, Source::File { .. }), "{key} stands in the file");
    }
}

#[test]
fn the_table_of_settings_is_generated() {
    let page = std::fs::read_to_string(path("docs/configuration.md")).expect("read");
    let start = page.find(TABLE_START).expect("the table has a start") + TABLE_START.len();
    let end = page.find(TABLE_END).expect("the table has an end");
    let expected = format!("{}{}{}", &page[..start], markdown_table(), &page[end..]);
    expect_file("docs/configuration.md", &expected);
}
