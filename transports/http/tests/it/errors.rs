//! Every error in one shape, on every kind of path.

use crate::node::{Node, topic_body};
use axum::http::Method;
use serde_json::json;

#[tokio::test]
async fn wrong_paths_methods_types_and_bodies_are_explained() {
    let node = Node::start().await;
    let client = node.client().await;
    assert_eq!(client.get("/nothing").await.error(), (404, 404, None));
    let slash = client.get("/streams/").await;
    assert_eq!(slash.error(), (404, 404, None));
    assert!(slash.json["reason"].as_str().unwrap().contains("slash"), "{slash:?}");

    let method = client.send(Method::PATCH, "/streams", None, &[]).await;
    assert_eq!(method.error(), (405, 405, None));
    let mut allowed: Vec<_> = method.header("allow").unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);

    let text = client.send(Method::POST, "/streams", Some("{}".into()), &[("content-type", "text/plain")]).await;
    assert_eq!(text.error(), (415, 415, None));
    assert_eq!(client.send(Method::POST, "/streams", Some("{".into()), &[]).await.error(), (400, 400, None));
    assert_eq!(client.send(Method::POST, "/streams", Some(String::new()), &[]).await.error(), (400, 400, None));
    let shape = client.post("/streams", json!({"name": 7})).await;
    assert_eq!(shape.error(), (422, 422, None));
    assert!(shape.json["reason"].as_str().unwrap().starts_with("`name`: "), "{shape:?}");
    assert_eq!(client.post("/streams", json!({"name": ""})).await.error(), (400, 1013, Some("name")));
    assert_eq!(client.post("/streams", json!({"name": "x".repeat(256)})).await.error(), (400, 1013, Some("name")));

    assert_eq!(client.get("/streams?consistency=strong").await.error(), (400, 400, None));
    assert_eq!(client.get("/streams/%ff").await.error(), (400, 400, None));
    assert_eq!(client.get("/clients/abc").await.error(), (400, 6, Some("client_id")));
    assert_eq!(client.get("/options/planet").await.error().0, 400);
    node.stop().await;
}

#[tokio::test]
async fn what_does_not_exist_is_404_with_the_number_of_its_kind() {
    let node = Node::start().await;
    let client = node.client().await;
    assert_eq!(client.get("/streams/s").await.error(), (404, 1009, Some("stream_id")));
    assert_eq!(client.get("/streams/7").await.error(), (404, 1009, Some("stream_id")));
    assert_eq!(client.delete("/streams/s").await.error(), (404, 1009, Some("stream_id")));
    assert_eq!(client.put("/streams/s", json!({"name": "n"})).await.error(), (404, 1009, Some("stream_id")));
    assert_eq!(client.get("/streams/s/topics").await.error(), (404, 1009, Some("stream_id")));
    assert_eq!(client.post("/streams/s/topics", topic_body("t", 1)).await.error(), (404, 1009, Some("stream_id")));
    assert_eq!(client.get("/streams/s/topics/t/messages").await.error(), (404, 1009, Some("stream_id")));
    client.stream_and_topic(1).await;
    assert_eq!(client.get("/streams/s/topics/x").await.error(), (404, 2010, Some("topic_id")));
    assert_eq!(client.delete("/streams/s/topics/x").await.error(), (404, 2010, Some("topic_id")));
    assert_eq!(
        client.get("/streams/s/topics/t/messages?partition_id=5").await.error(),
        (404, 3007, Some("partition_id"))
    );
    assert_eq!(client.get("/streams/s/topics/t/consumer-offsets").await.error().1, 3021);
    assert_eq!(client.delete("/streams/s/topics/t/consumer-offsets/9").await.error().1, 3021);
    assert_eq!(client.get("/clients/4000000000").await.error(), (404, 100, Some("client_id")));
    node.stop().await;
}

#[tokio::test]
async fn known_paths_that_are_not_offered_say_so() {
    let node = Node::start().await;
    let client = node.client().await;
    for (method, path) in [
        (Method::GET, "/users"),
        (Method::GET, "/users/me"),
        (Method::POST, "/personal-access-tokens"),
        (Method::GET, "/streams/s/topics/t/consumer-groups"),
        (Method::DELETE, "/streams/s/topics/t/partitions/0"),
        (Method::POST, "/snapshot"),
        (Method::GET, "/metrics"),
    ] {
        assert_eq!(client.send(method.clone(), path, None, &[]).await.error(), (400, 5, None), "{method} {path}");
        assert_eq!(node.anonymous().send(method, path, None, &[]).await.error(), (401, 40, None), "{path}");
    }
    assert_eq!(node.anonymous().post("/personal-access-tokens/login", json!({})).await.error(), (400, 5, None));
    node.stop().await;
}

#[tokio::test]
async fn browsers_of_other_origins_get_their_headers_on_successes_and_errors() {
    let node = Node::start().await;
    let preflight = node
        .anonymous()
        .send(
            Method::OPTIONS,
            "/streams",
            None,
            &[
                ("origin", "https://app.example"),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "authorization,content-type"),
            ],
        )
        .await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (200, Some("*")));
    let (client, anonymous) = (node.client().await, node.anonymous());
    for (client, path, status) in
        [(&client, "/streams", 200), (&anonymous, "/streams", 401), (&client, "/streams/x", 404)]
    {
        let answer = client.send(Method::GET, path, None, &[("origin", "https://app.example")]).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, Some("*")));
        assert!(answer.header("access-control-expose-headers").unwrap().contains("iggy-durability"));
        assert_eq!(answer.header("vary"), Some("origin"));
    }
    node.stop().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_on_a_real_route() {
    let node = Node::start_with(|settings| settings.max_request_size = 1000).await;
    let client = node.client().await;
    let answer = client.post("/streams", json!({"name": "x", "more": "y".repeat(1000)})).await;
    assert_eq!(answer.error(), (413, 413, None));
    assert_eq!(answer.header("connection"), Some("close"));
    node.stop().await;
}
