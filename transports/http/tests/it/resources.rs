//! Streams, topics, partitions, and what the server says about itself.

use crate::node::{NO_CONTENT, Node, topic_body};
use serde_json::json;

#[tokio::test]
async fn a_stream_lives_from_creation_to_deletion() {
    let node = Node::start().await;
    let client = node.client().await;
    let created = client.post("/streams", json!({"name": "orders", "unknown": true})).await;
    assert_eq!(created.status, 200);
    let created_at = created.json["created_at"].as_u64().unwrap();
    assert!(created_at > 1_700_000_000_000_000, "microseconds: {created_at}");
    assert_eq!(
        created.json,
        json!({
            "id": 0, "created_at": created_at, "name": "orders", "size": "0 B", "messages_count": 0, "topics_count": 0,
            "options": {}, "topics": []
        })
    );
    let again = client.post("/streams", json!({"name": "orders"})).await;
    assert_eq!(again.error(), (400, 1012, Some("name")));
    assert_eq!(again.json["outcome"], "not_applied");

    let second = client.post("/streams", json!({"name": "a b/ü%"})).await;
    assert_eq!(second.json["id"], 1);
    assert_eq!(client.get("/streams/a%20b%2F%C3%BC%25").await.json["id"], 1);
    assert_eq!(client.put("/streams/a%20b%2F%C3%BC%25", json!({"name": "plain"})).await.status, NO_CONTENT);
    assert_eq!(client.get("/streams/plain").await.json["name"], "plain");
    assert_eq!(client.put("/streams/1", json!({"name": "x", "options": {"colour": "red"}})).await.error().1, 4041);

    let names: Vec<_> =
        client.get("/streams").await.json.as_array().unwrap().iter().map(|stream| stream["name"].clone()).collect();
    assert_eq!(names, ["orders", "plain"]);
    let deleted = client.delete("/streams/0").await;
    assert_eq!((deleted.status, deleted.body.len()), (NO_CONTENT, 0));
    assert_eq!(client.get("/streams/orders").await.status, 404);
    node.stop().await;
}

#[tokio::test]
async fn a_topic_shows_its_options_and_changes_them() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    let mut body = topic_body("strict", 3);
    body["options"] = json!({"durability": "persisted", "segment_size": "2MiB"});
    body["message_expiry"] = json!(60_000_000u64);
    let created = client.post("/streams/s/topics", body).await;
    assert_eq!((created.status, &created.json["id"]), (200, &json!(1)));
    assert_eq!(created.json["message_expiry"], 60_000_000);
    assert_eq!(created.json["max_topic_size"], u64::MAX);
    assert_eq!(created.json["compression_algorithm"], "none");
    assert_eq!(created.json["options"]["durability"], json!({"value": "persisted", "explicit": true}));
    assert_eq!(created.json["options"]["segment_size"], json!({"value": "2097152", "explicit": true}));
    let partitions = created.json["partitions"].as_array().unwrap();
    assert_eq!(partitions.iter().map(|partition| partition["id"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((&partitions[0]["segments_count"], &partitions[0]["size"]), (&json!(1), &json!("0 B")));

    for view in [
        client.get("/streams/s/topics").await.json[1].clone(),
        client.get("/streams/s").await.json["topics"][1].clone(),
        client.get("/streams/0/topics/1").await.json,
    ] {
        assert_eq!(view["name"], "strict");
        assert_eq!(view["partitions_count"], 3);
        assert_eq!(view["options"]["durability"]["value"], "persisted");
    }
    let update = json!({
        "name": "renamed", "compression_algorithm": "gzip", "message_expiry": null, "max_topic_size": 0, "options": {}
    });
    assert_eq!(client.put("/streams/s/topics/strict", update).await.status, NO_CONTENT);
    let changed = client.get("/streams/s/topics/renamed").await.json;
    assert_eq!((&changed["compression_algorithm"], &changed["message_expiry"]), (&json!("gzip"), &json!(60_000_000)));

    assert_eq!(client.post("/streams/s/topics", topic_body("t", 1)).await.error(), (400, 2013, Some("name")));
    assert_eq!(client.delete("/streams/s/topics/renamed").await.status, NO_CONTENT);
    assert_eq!(client.get("/streams/s").await.json["topics_count"], 1);
    node.stop().await;
}

#[tokio::test]
async fn partitions_come_and_go_at_the_end() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(1).await;
    let added = client.post("/streams/s/topics/t/partitions", json!({"partitions_count": 2})).await;
    assert_eq!((added.status, added.body.len()), (200, 0));
    assert_eq!(client.get("/streams/s/topics/t").await.json["partitions_count"], 3);
    let removed = client.delete("/streams/s/topics/t/partitions?partitions_count=1").await;
    assert_eq!(removed.status, NO_CONTENT);
    assert_eq!(client.get("/streams/s/topics/t").await.json["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(client.post("/streams/s/topics/t/partitions", json!({"partitions_count": 0})).await.error().0, 400);
    assert_eq!(client.delete("/streams/s/topics/t/partitions").await.error(), (400, 400, None));
    node.stop().await;
}

#[tokio::test]
async fn the_server_tells_about_itself() {
    let node = Node::start().await;
    let client = node.client().await;
    client.stream_and_topic(2).await;
    let stats = client.get("/stats").await;
    assert_eq!(stats.status, 200);
    let stats = stats.json.as_object().unwrap();
    assert_eq!(stats.len(), 28);
    assert_eq!(
        (&stats["streams_count"], &stats["topics_count"], &stats["partitions_count"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(stats["process_id"], std::process::id());
    assert_eq!(stats["cache_metrics"], json!({}));
    assert!(stats["memory_usage"].as_str().unwrap().ends_with('B'));
    assert!(stats["cpu_usage"].is_number() && stats["run_time"].is_u64());

    let cluster = client.get("/cluster/metadata?consistency=linearizable").await.json;
    let node_view = json!({
        "name": "node-0", "ip": "127.0.0.1", "role": "leader", "status": "healthy",
        "endpoints": {"tcp": 0, "quic": 0, "http": node.address.port(), "websocket": 0}
    });
    assert_eq!(cluster, json!({"name": "test", "nodes": [node_view]}));

    let clients = client.get("/clients").await.json;
    let ours = clients.as_array().unwrap().last().unwrap().clone();
    assert_eq!((&ours["transport"], &ours["consumer_groups_count"]), (&json!("HTTP"), &json!(0)));

    let options = client.get("/options/topic").await.json;
    let durability = options.as_array().unwrap().iter().find(|option| option["key"] == "durability").unwrap();
    assert_eq!(durability["kind"], "string");
    let default: Vec<u8> = serde_json::from_value(durability["default_value"].clone()).unwrap();
    assert_eq!(default, b"replicated");
    assert_eq!(client.get("/options/stream").await.json, json!([]));
    assert_eq!(client.get("/options/user").await.json, json!([]));
    node.stop().await;
}
