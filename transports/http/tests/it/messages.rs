//! Appending, reading, offsets, emptying.

use crate::node::{Client, NO_CONTENT, Node, topic_body};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const MESSAGES: &str = "/streams/s/topics/t/messages";
const OFFSETS: &str = "/streams/s/topics/t/consumer-offsets";

fn to_partition(partition: u32, payloads: &[&str]) -> Value {
    let messages: Vec<_> =
        payloads.iter().map(|payload| json!({"id": 0, "payload": STANDARD.encode(payload)})).collect();
    json!({
        "partitioning": {"kind": "partition_id", "value": STANDARD.encode(partition.to_le_bytes())},
        "messages": messages
    })
}

async fn payloads(client: &Client, query: &str) -> Vec<String> {
    let answer = client.get(&format!("{MESSAGES}?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let messages = answer.json["messages"].as_array().unwrap();
    assert_eq!(answer.json["count"], messages.len());
    let text =
        |message: &Value| String::from_utf8(STANDARD.decode(message["payload"].as_str().unwrap()).unwrap()).unwrap();
    messages.iter().map(text).collect()
}

#[tokio::test]
async fn what_is_sent_can_be_read_from_anywhere() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(2).await;
    let sent = client.post(MESSAGES, to_partition(1, &["a", "b", "c"])).await;
    assert_eq!((sent.status, sent.header("iggy-durability")), (201, Some("replicated")));
    let confirmation = json!({"stream_id": 0, "topic_id": 0, "partition_id": 1, "base_offset": 0});
    assert_eq!(sent.json, json!({"confirmations": [confirmation]}));
    let more = client.post(MESSAGES, to_partition(1, &["d"])).await;
    assert_eq!(more.json["confirmations"][0]["base_offset"], 3);

    assert_eq!(payloads(&client, "partition_id=1").await, ["a", "b", "c", "d"]);
    assert_eq!(payloads(&client, "partition_id=1&kind=offset&value=2").await, ["c", "d"]);
    assert_eq!(payloads(&client, "partition_id=1&kind=o&value=1&count=2").await, ["b", "c"]);
    assert_eq!(payloads(&client, "partition_id=1&kind=first&count=1").await, ["a"]);
    assert_eq!(payloads(&client, "partition_id=1&kind=last&count=2").await, ["c", "d"]);
    assert_eq!(payloads(&client, "partition_id=1&kind=timestamp&value=0&count=2").await, ["a", "b"]);
    assert_eq!(payloads(&client, "partition_id=1&value=4").await, [""; 0]);
    assert_eq!(payloads(&client, "partition_id=1&count=0").await, [""; 0]);
    assert_eq!(payloads(&client, "").await, [""; 0]);

    let partition = client.get("/streams/s/topics/t").await.json["partitions"][1].clone();
    assert_eq!((&partition["current_offset"], &partition["messages_count"]), (&json!(3), &json!(4)));
    assert_eq!(client.get("/streams/s").await.json["messages_count"], 4);
    node.stop().await;
}

#[tokio::test]
async fn ids_headers_and_times_come_back() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    let headers =
        json!([{"key": {"kind": "string", "value": "YQ=="}, "value": {"kind": "uint64", "value": "AQAAAAAAAAA="}}]);
    let body = json!({
        "partitioning": {"kind": "balanced", "value": ""},
        "messages": [
            {"id": "340282366920938463463374607431768211455", "payload": "AP8=", "user_headers": headers},
            {"id": "0198c1f0-7b1c-7000-8000-00000000002a", "payload": "eA==", "user_headers": null},
            {"payload": "eQ=="}
        ]
    });
    let sent = client.post(MESSAGES, body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let answer = client.get(MESSAGES).await;
    let first = &answer.json["messages"][0];
    assert_eq!(first["header"]["id"].to_string(), "340282366920938463463374607431768211455");
    assert_eq!((&first["payload"], &first["user_headers"]), (&json!("AP8="), &headers));
    let header = &first["header"];
    assert_eq!(
        (&header["payload_length"], &header["user_headers_length"], &header["offset"]),
        (&json!(2), &json!(19), &json!(0))
    );
    assert_eq!(header["reserved"], 0);
    assert!(header["timestamp"].as_u64().unwrap() >= header["origin_timestamp"].as_u64().unwrap());
    assert_eq!(
        answer.json["messages"][1]["header"]["id"].to_string(),
        0x0198_c1f0_7b1c_7000_8000_0000_0000_002a_u128.to_string()
    );
    assert_eq!(answer.json["messages"][1]["user_headers"], json!([]));
    assert_ne!(answer.json["messages"][2]["header"]["id"].to_string(), "0", "the server made an id");
    assert_eq!(answer.json["current_offset"], 2);
    node.stop().await;
}

#[tokio::test]
async fn a_key_always_leads_to_the_same_partition_and_balance_spreads() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(4).await;
    let partition_of = |kind: &'static str, value: String| {
        let client = client.clone();
        async move {
            let body = json!({"partitioning": {"kind": kind, "value": value}, "messages": [{"payload": "eA=="}]});
            client.post(MESSAGES, body).await.json["confirmations"][0]["partition_id"].as_u64().unwrap()
        }
    };
    let first = partition_of("messages_key", STANDARD.encode("customer-7")).await;
    assert_eq!(partition_of("messages_key", STANDARD.encode("customer-7")).await, first);
    let mut spread = Vec::new();
    for _ in 0..4 {
        spread.push(partition_of("balanced", String::new()).await);
    }
    spread.sort_unstable();
    assert_eq!(spread, [0, 1, 2, 3]);
    node.stop().await;
}

#[tokio::test]
async fn a_persisted_topic_says_so_and_ack_none_waits_for_nothing() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    let mut body = topic_body("p", 1);
    body["options"] = json!({"durability": "persisted"});
    assert_eq!(client.post("/streams/s/topics", body).await.status, 200);
    let sent = client.post("/streams/s/topics/p/messages", to_partition(0, &["x"])).await;
    assert_eq!((sent.status, sent.header("iggy-durability")), (201, Some("persisted")));

    let taken = client.post(&format!("{MESSAGES}?ack=none"), to_partition(0, &["x"])).await;
    assert_eq!((taken.status, taken.body.len(), taken.header("iggy-durability")), (202, 0, None));
    assert_eq!(client.post(&format!("{MESSAGES}?ack=some"), to_partition(0, &["x"])).await.error().0, 400);
    let missing = client.post("/streams/s/topics/x/messages?ack=none", to_partition(0, &["x"])).await;
    assert_eq!(missing.error(), (404, 2010, Some("topic_id")));
    node.stop().await;
}

#[tokio::test]
async fn wrong_messages_are_refused_whole() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    let with = |messages: Value| json!({"partitioning": {"kind": "balanced", "value": ""}, "messages": messages});
    assert_eq!(client.post(MESSAGES, with(json!([]))).await.error().1, 4009);
    assert_eq!(client.post(MESSAGES, with(json!([{"payload": "eA=="}, {"payload": ""}]))).await.error().1, 4024);
    assert_eq!(client.post(MESSAGES, with(json!([{"payload": "%"}]))).await.error().0, 400);
    assert_eq!(client.post(MESSAGES, to_partition(9, &["x"])).await.error(), (404, 3007, Some("partition_id")));
    let wrong_value =
        json!({"partitioning": {"kind": "partition_id", "value": "AA=="}, "messages": [{"payload": "eA=="}]});
    assert_eq!(client.post(MESSAGES, wrong_value).await.error(), (400, 4028, Some("partitioning")));
    assert_eq!(payloads(&client, "").await, [""; 0]);
    node.stop().await;
}

#[tokio::test]
async fn consumers_store_and_forget_how_far_they_came() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    assert_eq!(client.post(MESSAGES, to_partition(0, &["a", "b", "c"])).await.status, 201);
    let store = client.put(OFFSETS, json!({"consumer_id": "worker", "partition_id": null, "offset": 1})).await;
    assert_eq!((store.status, store.body.len()), (NO_CONTENT, 0));
    let stored = client.get(&format!("{OFFSETS}?consumer_id=worker&partition_id=0")).await;
    assert_eq!(stored.json, json!({"partition_id": 0, "current_offset": 2, "stored_offset": 1}));
    assert_eq!(payloads(&client, "kind=next&consumer_id=worker").await, ["c"]);
    assert_eq!(payloads(&client, "kind=next").await, ["a", "b", "c"]);

    let beyond = client.put(OFFSETS, json!({"consumer_id": 1, "partition_id": 0, "offset": 9})).await;
    assert_eq!(beyond.error(), (400, 4100, Some("offset")));
    assert_eq!(payloads(&client, "kind=next&count=2&auto_commit=true").await, ["a", "b"]);
    assert_eq!(payloads(&client, "kind=next&count=2&auto_commit=true").await, ["c"]);
    assert_eq!(client.get(OFFSETS).await.json["stored_offset"], 2);

    assert_eq!(client.delete(&format!("{OFFSETS}/worker?partition_id=0")).await.status, NO_CONTENT);
    assert_eq!(client.get(&format!("{OFFSETS}?consumer_id=worker")).await.error().1, 3021);
    node.stop().await;
}

#[tokio::test]
async fn a_flush_of_a_partition_that_is_there_succeeds() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    for fsync in ["true", "false"] {
        assert_eq!(client.get(&format!("{MESSAGES}/flush/0/fsync={fsync}")).await.status, NO_CONTENT);
    }
    assert_eq!(client.get(&format!("{MESSAGES}/flush/1/fsync=true")).await.error(), (404, 3007, Some("partition_id")));
    assert_eq!(client.get(&format!("{MESSAGES}/flush/0/fsync=maybe")).await.error().0, 400);
    node.stop().await;
}

#[tokio::test]
async fn a_purge_empties_and_offsets_go_on() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    assert_eq!(client.post(MESSAGES, to_partition(0, &["a", "b"])).await.status, 201);
    assert_eq!(client.delete("/streams/s/topics/t/purge").await.status, NO_CONTENT);
    assert_eq!(payloads(&client, "kind=first").await, [""; 0]);
    assert_eq!(client.get("/streams/s/topics/t").await.json["messages_count"], 0);
    assert_eq!(client.post(MESSAGES, to_partition(0, &["c"])).await.status, 201);
    assert_eq!(payloads(&client, "kind=first").await, ["c"]);
    assert_eq!(client.delete("/streams/s/purge").await.status, NO_CONTENT);
    assert_eq!(payloads(&client, "kind=first").await, [""; 0]);
    node.stop().await;
}
