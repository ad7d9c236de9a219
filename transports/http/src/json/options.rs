//! Options of a resource, as reads show them.

use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use whippet_metadata::options::{OptionSpec, TopicOptions};

/// One option in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OptionSetting {
    /// The value as text, never empty. Numbers in decimal; durations in microseconds, sizes in bytes.
    #[schema(example = "persisted")]
    pub value: String,
    /// Whether a caller chose the value; otherwise it follows from a default.
    pub explicit: bool,
}

/// Options by name. For a topic every option is there, with the value that is in effect, `durability` among them.
pub type OptionSettings = BTreeMap<&'static str, OptionSetting>;

/// Every option of a topic.
pub fn topic_options(options: &TopicOptions) -> OptionSettings {
    options
        .entries()
        .into_iter()
        .map(|entry| (entry.key, OptionSetting { value: entry.value.to_string(), explicit: entry.explicit }))
        .collect()
}

/// One option that a resource can be created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OptionDescription {
    /// Name of the option.
    #[schema(example = "durability")]
    pub key: String,
    /// Kind of the default value's bytes: `string`, `bool`, `uint32` or `uint64`. Requests send text.
    #[schema(example = "string")]
    pub kind: String,
    /// The default as bytes, numbers little-endian.
    #[schema(value_type = Vec<i32>)]
    pub default_value: Vec<u8>,
    /// One line for people.
    pub description: String,
}

impl From<&OptionSpec> for OptionDescription {
    fn from(spec: &OptionSpec) -> Self {
        use whippet_metadata::options::OptionKind;
        let kind = match spec.kind {
            OptionKind::String => "string",
            OptionKind::Bool => "bool",
            OptionKind::Uint32 => "uint32",
            OptionKind::Uint64 => "uint64",
        };
        Self {
            key: spec.key.to_owned(),
            kind: kind.to_owned(),
            default_value: spec.default.wire_bytes(),
            description: spec.description.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whippet_metadata::options::{Purpose, TOPIC_OPTIONS, TopicOptionsPatch};

    #[test]
    fn a_topic_shows_every_option_and_which_were_chosen() {
        let patch = TopicOptionsPatch::from_text_map([("durability", "persisted")], Purpose::Create).unwrap();
        let settings = topic_options(&TopicOptions::from_patch(&patch));
        assert_eq!(settings.len(), TOPIC_OPTIONS.len());
        assert_eq!(settings["durability"], OptionSetting { value: "persisted".into(), explicit: true });
        assert_eq!(settings["compression_algorithm"], OptionSetting { value: "none".into(), explicit: false });
        assert_eq!(settings["message_expiry"].value, "18446744073709551615");
        assert!(settings.values().all(|setting| !setting.value.is_empty()));
    }

    #[test]
    fn a_default_is_described_by_its_bytes() {
        let description =
            OptionDescription::from(TOPIC_OPTIONS.iter().find(|spec| spec.key == "messages_required_to_save").unwrap());
        assert_eq!(
            serde_json::to_value(&description).unwrap(),
            serde_json::json!({
                "key": "messages_required_to_save", "kind": "uint32", "default_value": [0, 4, 0, 0],
                "description": description.description,
            })
        );
    }
}
