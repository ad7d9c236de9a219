use crate::driver::texts;
use whippet_metadata::options::catalogue::{self, UNLIMITED, topic_option};
use whippet_metadata::options::{Compression, Durability, OptionEntry, OptionValue, Purpose, TOPIC_OPTIONS};
use whippet_metadata::{TopicDefaults, TopicOptions, TopicOptionsPatch};
use whippet_protocol::ErrorCode;

const RAW: u8 = 1;
const TEXT: u8 = 2;
const BOOL: u8 = 3;
const UINT8: u8 = 9;
const UINT32: u8 = 11;
const UINT64: u8 = 12;

fn wire(purpose: Purpose, entries: &[(&str, u8, &[u8])]) -> Result<TopicOptionsPatch, ErrorCode> {
    TopicOptionsPatch::from_entries(entries.iter().copied(), purpose)
}

/// The option of a topic that was created with this one entry.
fn created_with(key: &str, kind: u8, bytes: &[u8]) -> Result<OptionEntry, ErrorCode> {
    let options = TopicOptions::from_patch(&wire(Purpose::Create, &[(key, kind, bytes)])?);
    Ok(*options.entries().iter().find(|entry| entry.key == key).unwrap())
}

fn explicit(key: &'static str, value: OptionValue) -> Result<OptionEntry, ErrorCode> {
    Ok(OptionEntry { key, kind: value.kind(), value, explicit: true })
}

fn derived(key: &'static str, value: OptionValue) -> Result<OptionEntry, ErrorCode> {
    Ok(OptionEntry { key, kind: value.kind(), value, explicit: false })
}

#[test]
fn the_catalogue_is_what_the_protocol_says() {
    let rows: Vec<_> = TOPIC_OPTIONS
        .iter()
        .map(|spec| (spec.key, spec.kind.code(), spec.default.to_string(), spec.updatable))
        .collect();
    let expected = [
        ("compression_algorithm", TEXT, "none", true),
        ("message_expiry", UINT64, "18446744073709551615", true),
        ("max_topic_size", UINT64, "18446744073709551615", true),
        ("segment_size", UINT64, "1073741824", false),
        ("durability", TEXT, "replicated", false),
        ("consumer_offset_durability", TEXT, "replicated", false),
        ("messages_required_to_save", UINT32, "1024", false),
        ("size_of_messages_required_to_save", UINT64, "1048576", false),
        ("preallocate_segments", BOOL, "false", false),
    ];
    assert_eq!(rows, expected.map(|(key, kind, default, updatable)| (key, kind, default.to_owned(), updatable)));
    assert!(TOPIC_OPTIONS.iter().all(|spec| !spec.description.is_empty()));
    assert_eq!(topic_option("enforce_fsync"), None);
}

#[test]
fn a_topic_without_options_lists_the_catalogue_as_derived() {
    let entries = TopicOptions::default().entries();
    let expected: Vec<_> = TOPIC_OPTIONS.iter().map(|spec| derived(spec.key, spec.default).unwrap()).collect();
    assert_eq!(entries, expected);
    assert_eq!(TopicOptions::default().check(1000), Ok(()));
}

#[test]
fn values_have_wire_bytes() {
    assert_eq!(OptionValue::Text("gzip").wire_bytes(), b"gzip");
    assert_eq!(OptionValue::Bool(true).wire_bytes(), [1]);
    assert_eq!(OptionValue::Uint32(1024).wire_bytes(), [0, 4, 0, 0]);
    assert_eq!(OptionValue::Uint64(UNLIMITED).wire_bytes(), [255; 8]);
    assert_eq!((Compression::None.code(), Compression::Gzip.code()), (1, 2));
}

#[test]
fn accepted_values() {
    let number = |value: u64| value.to_le_bytes();
    let day = 86_400_000_000u64;
    let cases: &[(&'static str, u8, &[u8], OptionValue)] = &[
        ("compression_algorithm", TEXT, b"gzip", OptionValue::Text("gzip")),
        ("compression_algorithm", TEXT, b"GZIP", OptionValue::Text("gzip")),
        ("compression_algorithm", TEXT, b"none", OptionValue::Text("none")),
        ("compression_algorithm", UINT8, &[2], OptionValue::Text("gzip")),
        ("message_expiry", UINT64, &number(5), OptionValue::Uint64(5)),
        ("message_expiry", UINT64, &[255; 8], OptionValue::Uint64(UNLIMITED)),
        ("message_expiry", TEXT, b"7 days", OptionValue::Uint64(7 * day)),
        ("message_expiry", TEXT, b"never", OptionValue::Uint64(UNLIMITED)),
        ("message_expiry", TEXT, b"never_expire", OptionValue::Uint64(UNLIMITED)),
        ("message_expiry", TEXT, b"none", OptionValue::Uint64(UNLIMITED)),
        ("message_expiry", TEXT, b"Unlimited", OptionValue::Uint64(UNLIMITED)),
        ("message_expiry", TEXT, b"86400000000", OptionValue::Uint64(day)),
        ("max_topic_size", UINT64, &number(1 << 31), OptionValue::Uint64(1 << 31)),
        ("max_topic_size", TEXT, b"10GiB", OptionValue::Uint64(10 << 30)),
        ("max_topic_size", TEXT, b"2 GB", OptionValue::Uint64(2_000_000_000)),
        ("max_topic_size", TEXT, b"unlimited", OptionValue::Uint64(UNLIMITED)),
        ("segment_size", UINT64, &number(1 << 20), OptionValue::Uint64(1 << 20)),
        ("segment_size", TEXT, b"128MiB", OptionValue::Uint64(128 << 20)),
        ("segment_size", TEXT, b"1073741824", OptionValue::Uint64(1 << 30)),
        ("segment_size", UINT64, &number((1 << 20) + 512), OptionValue::Uint64((1 << 20) + 512)),
        ("durability", TEXT, b"persisted", OptionValue::Text("persisted")),
        ("durability", TEXT, b"Replicated", OptionValue::Text("replicated")),
        ("consumer_offset_durability", TEXT, b"PERSISTED", OptionValue::Text("persisted")),
        ("messages_required_to_save", UINT32, &[1, 0, 0, 0], OptionValue::Uint32(1)),
        ("messages_required_to_save", TEXT, b"16777216", OptionValue::Uint32(16_777_216)),
        ("size_of_messages_required_to_save", UINT64, &number(1 << 30), OptionValue::Uint64(1 << 30)),
        ("size_of_messages_required_to_save", TEXT, b"4KiB", OptionValue::Uint64(4096)),
        ("preallocate_segments", BOOL, &[1], OptionValue::Bool(true)),
        ("preallocate_segments", BOOL, &[0], OptionValue::Bool(false)),
        ("preallocate_segments", TEXT, b"true", OptionValue::Bool(true)),
        ("preallocate_segments", TEXT, b"False", OptionValue::Bool(false)),
    ];
    for &(key, kind, bytes, value) in cases {
        assert_eq!(created_with(key, kind, bytes), explicit(key, value), "{key} {kind} {bytes:?}");
    }
}

#[test]
fn values_that_ask_for_the_default_are_not_explicit() {
    let cases: &[(&'static str, u8, &[u8])] = &[
        ("message_expiry", UINT64, &[0; 8]),
        ("message_expiry", TEXT, b"0"),
        ("message_expiry", TEXT, b"0s"),
        ("message_expiry", TEXT, b"server_default"),
        ("message_expiry", TEXT, b"default"),
        ("max_topic_size", UINT64, &[0; 8]),
        ("max_topic_size", TEXT, b"server_default"),
        ("max_topic_size", TEXT, b"0"),
        ("segment_size", UINT64, &[0; 8]),
        ("segment_size", TEXT, b"0B"),
        ("size_of_messages_required_to_save", UINT64, &[0; 8]),
    ];
    for &(key, kind, bytes) in cases {
        assert_eq!(created_with(key, kind, bytes), derived(key, topic_option(key).unwrap().default), "{key} {bytes:?}");
    }
}

#[test]
fn refused_values() {
    let number = |value: u64| value.to_le_bytes();
    let cases: &[(&str, u8, &[u8])] = &[
        ("compression_algorithm", TEXT, b"lz4"),
        ("compression_algorithm", TEXT, b""),
        ("compression_algorithm", UINT8, &[0]),
        ("compression_algorithm", UINT8, &[3]),
        ("compression_algorithm", UINT8, &[1, 1]),
        ("compression_algorithm", UINT32, &[1, 0, 0, 0]),
        ("message_expiry", TEXT, b"soon"),
        ("message_expiry", TEXT, b"7 dayz"),
        ("message_expiry", TEXT, b""),
        ("message_expiry", TEXT, &[0xFF]),
        ("message_expiry", UINT32, &[1, 0, 0, 0]),
        ("message_expiry", UINT64, &[1, 0, 0]),
        ("message_expiry", RAW, &[1]),
        ("message_expiry", 99, &[1]),
        ("max_topic_size", TEXT, b"big"),
        ("max_topic_size", TEXT, b"-1"),
        ("max_topic_size", BOOL, &[1]),
        ("segment_size", UINT64, &number((1 << 20) - 512)),
        ("segment_size", UINT64, &number((1 << 30) + 512)),
        ("segment_size", UINT64, &number((1 << 20) + 1)),
        ("segment_size", TEXT, b"2GiB"),
        ("segment_size", TEXT, b"unlimited"),
        ("durability", TEXT, b"fsync"),
        ("durability", BOOL, &[1]),
        ("consumer_offset_durability", TEXT, b"none"),
        ("messages_required_to_save", UINT32, &[0; 4]),
        ("messages_required_to_save", UINT32, &16_777_217u32.to_le_bytes()),
        ("messages_required_to_save", UINT64, &number(5)),
        ("messages_required_to_save", TEXT, b"1k"),
        ("size_of_messages_required_to_save", UINT64, &number((1 << 30) + 1)),
        ("size_of_messages_required_to_save", TEXT, b"2GiB"),
        ("preallocate_segments", BOOL, &[2]),
        ("preallocate_segments", BOOL, &[1, 0]),
        ("preallocate_segments", TEXT, b"yes"),
    ];
    for &(key, kind, bytes) in cases {
        assert_eq!(created_with(key, kind, bytes), Err(ErrorCode::InvalidOptionValue), "{key} {kind} {bytes:?}");
    }
}

#[test]
fn unknown_keys_are_refused() {
    for key in ["enforce_fsync", "Durability", "", "partitions"] {
        for purpose in [Purpose::Create, Purpose::Update] {
            assert_eq!(texts(purpose, &[(key, "true")]), Err(ErrorCode::UnsupportedOptionKey), "{key:?}");
        }
    }
}

#[test]
fn an_update_may_set_updatable_keys_only() {
    for spec in TOPIC_OPTIONS {
        let patch = wire(Purpose::Update, &[(spec.key, spec.kind.code(), &spec.default.wire_bytes())]);
        if spec.updatable {
            assert!(!patch.unwrap().sets_create_only(), "{}", spec.key);
        } else {
            assert_eq!(patch, Err(ErrorCode::UnsupportedOptionKey), "{}", spec.key);
            let patch = wire(Purpose::Create, &[(spec.key, spec.kind.code(), &spec.default.wire_bytes())]).unwrap();
            assert!(patch.sets_create_only(), "{}", spec.key);
        }
    }
}

#[test]
fn a_key_comes_once() {
    let twice = [("durability", TEXT, &b"persisted"[..]), ("durability", TEXT, b"persisted")];
    assert_eq!(wire(Purpose::Create, &twice), Err(ErrorCode::InvalidOptionValue));
    let twice = [("message_expiry", TEXT, &b"0"[..]), ("message_expiry", TEXT, b"1s")];
    assert_eq!(wire(Purpose::Update, &twice), Err(ErrorCode::InvalidOptionValue));
}

#[test]
fn what_a_reply_lists_can_be_sent_again() {
    let options = [("message_expiry", "1h"), ("segment_size", "2MiB"), ("durability", "persisted")];
    let first = TopicOptions::from_patch(&texts(Purpose::Create, &options).unwrap());
    let listed: Vec<_> = first.entries().into_iter().filter(|entry| entry.explicit).collect();
    assert_eq!(listed.len(), 3);

    let as_text: Vec<_> = listed.iter().map(|entry| (entry.key, entry.value.to_string())).collect();
    let as_text = as_text.iter().map(|(key, text)| (*key, text.as_str()));
    let again = TopicOptionsPatch::from_text_map(as_text, Purpose::Create).unwrap();
    assert_eq!(TopicOptions::from_patch(&again), first);

    let as_bytes: Vec<_> =
        listed.iter().map(|entry| (entry.key, entry.kind.code(), entry.value.wire_bytes())).collect();
    let as_bytes = as_bytes.iter().map(|(key, kind, bytes)| (*key, *kind, bytes.as_slice()));
    let again = TopicOptionsPatch::from_entries(as_bytes, Purpose::Create).unwrap();
    assert_eq!(TopicOptions::from_patch(&again), first);
}

#[test]
fn fields_of_their_own_join_the_options() {
    let mut patch = texts(Purpose::Create, &[("message_expiry", "1s"), ("durability", "persisted")]).unwrap();
    assert_eq!(patch.set_message_expiry(2_000_000), Err(ErrorCode::InvalidOptionValue));
    assert_eq!(patch.set_message_expiry(1_000_000), Ok(()));
    assert_eq!(patch.set_message_expiry(0), Ok(()));
    assert_eq!(patch.set_compression(Compression::Gzip), Ok(()));
    assert_eq!(patch.set_compression(Compression::None), Err(ErrorCode::InvalidOptionValue));
    assert_eq!(patch.set_max_topic_size(0), Ok(()));
    let options = TopicOptions::from_patch(&patch);
    assert_eq!(options.compression(), Compression::Gzip);
    assert_eq!((options.message_expiry_us(), options.max_topic_size()), (1_000_000, UNLIMITED));
    let explicit: Vec<_> = options.entries().iter().filter(|entry| entry.explicit).map(|entry| entry.key).collect();
    assert_eq!(explicit, ["compression_algorithm", "message_expiry", "durability"]);
    assert_eq!(patch.set_max_topic_size(7 << 30), Ok(()));
    assert_eq!(TopicOptions::from_patch(&patch).max_topic_size(), 7 << 30);
}

#[test]
fn a_creation_takes_the_defaults_of_the_node_that_admits_it() {
    let defaults = TopicDefaults {
        segment_size: 4 << 20,
        message_expiry: 5_000_000,
        max_topic_size: 64 << 20,
        durability_forced_persisted: false,
    };
    let patch = texts(Purpose::Create, &[("message_expiry", "9s"), ("max_topic_size", "0")]).unwrap();
    let admitted = patch.for_creation(&defaults, 3).unwrap();
    let options = TopicOptions::from_patch(&admitted);
    assert_eq!((options.segment_size(), options.message_expiry_us()), (4 << 20, 9_000_000));
    assert_eq!((options.max_topic_size(), options.durability()), (64 << 20, Durability::Replicated));
    let explicit: Vec<_> = options.entries().iter().filter(|entry| entry.explicit).map(|entry| entry.key).collect();
    assert_eq!(explicit, ["message_expiry"]);

    // What is replicated says everything: another node's defaults cannot show through.
    let elsewhere = TopicDefaults { durability_forced_persisted: false, ..TopicDefaults::default() };
    assert_eq!(admitted.for_creation(&elsewhere, 3), Ok(admitted.clone()));

    let unlimited = TopicDefaults { message_expiry: 0, max_topic_size: 0, ..defaults };
    let options = TopicOptions::from_patch(&TopicOptionsPatch::default().for_creation(&unlimited, 1).unwrap());
    assert_eq!((options.message_expiry_us(), options.max_topic_size()), (UNLIMITED, UNLIMITED));
}

#[test]
fn a_server_can_force_persisted() {
    let forced = TopicDefaults { durability_forced_persisted: true, ..TopicDefaults::default() };
    for (request, chosen) in [("", false), ("replicated", false), ("persisted", true)] {
        let entries = [("durability", request)];
        let patch = texts(Purpose::Create, if request.is_empty() { &[] } else { &entries }).unwrap();
        let options = TopicOptions::from_patch(&patch.for_creation(&forced, 1).unwrap());
        let entry = *options.entries().iter().find(|entry| entry.key == "durability").unwrap();
        assert_eq!((entry.value, entry.explicit), (OptionValue::Text("persisted"), chosen), "{request:?}");
        assert_eq!(options.consumer_offset_durability(), Durability::Replicated);
    }
}

#[test]
fn a_creation_is_checked_as_a_whole() {
    let create = |entries: &[(&str, &str)], defaults: &TopicDefaults, partitions| {
        texts(Purpose::Create, entries).unwrap().for_creation(defaults, partitions).map(|_| ())
    };
    let defaults = TopicDefaults::default();
    assert_eq!(create(&[("max_topic_size", "1073741823")], &defaults, 1), Err(ErrorCode::InvalidTopicSize));
    assert_eq!(create(&[("max_topic_size", "1GiB")], &defaults, 1), Ok(()));
    assert_eq!(create(&[("max_topic_size", "1MiB"), ("segment_size", "1MiB")], &defaults, 1), Ok(()));
    let small = TopicDefaults { max_topic_size: 1 << 29, segment_size: 1 << 20, ..defaults };
    assert_eq!(create(&[], &small, 1), Ok(()));
    assert_eq!(create(&[("segment_size", "1GiB")], &small, 1), Err(ErrorCode::InvalidTopicSize));

    let preallocated = [("preallocate_segments", "true")];
    assert_eq!(create(&preallocated, &defaults, 64), Ok(()));
    assert_eq!(create(&preallocated, &defaults, 65), Err(ErrorCode::InvalidOptionValue));
    assert_eq!(create(&[("preallocate_segments", "true"), ("segment_size", "1MiB")], &defaults, 1000), Ok(()));
    assert_eq!(catalogue::PREALLOCATED_BYTES_MAX, 64 << 30);

    let unusable = TopicDefaults { segment_size: 1000, ..defaults };
    assert_eq!(create(&[], &unusable, 1), Err(ErrorCode::InvalidOptionValue));
}
