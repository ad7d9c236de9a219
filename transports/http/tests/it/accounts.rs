//! Logins, tokens, what is public.

use crate::node::{NO_CONTENT, Node};
use axum::http::Method;
use serde_json::json;

#[tokio::test]
async fn a_login_gives_a_token_that_opens_the_rest() {
    let node = Node::start().await;
    let anonymous = node.anonymous();
    let login = anonymous
        .post(
            "/users/login",
            json!({"username": "iggy", "password": "secret", "version": "0.11.0", "context": "", "more": 1}),
        )
        .await;
    assert_eq!((login.status, &login.json["user_id"]), (200, &json!(0)));
    let expiry = login.json["access_token"]["expiry"].as_u64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now + 3590..=now + 3600).contains(&expiry), "seconds, one hour from now: {expiry}");
    assert_eq!(login.header("iggy-view"), Some("0"));

    assert_eq!(anonymous.get("/streams").await.error(), (401, 40, None));
    assert_eq!(anonymous.get("/streams").await.header("www-authenticate"), Some("Bearer"));
    assert_eq!(node.client().await.get("/streams").await.json, json!([]));
    node.stop().await;
}

#[tokio::test]
async fn a_wrong_password_is_400_and_says_no_more_than_that() {
    let node = Node::start().await;
    let login = |username: &'static str, password: &'static str| {
        let client = node.anonymous();
        async move { client.post("/users/login", json!({"username": username, "password": password})).await }
    };
    let wrong = login("iggy", "wrong").await;
    assert_eq!(wrong.error(), (400, 42, None));
    let unknown = login("nobody", "secret").await;
    assert_eq!(unknown.error(), (400, 42, None));
    assert_eq!(wrong.json["reason"], unknown.json["reason"]);
    assert_eq!(login("", "").await.error(), (400, 42, None));
    assert_eq!(node.anonymous().post("/users/login", json!({"username": "iggy"})).await.error().0, 422);
    node.stop().await;
}

#[tokio::test]
async fn public_paths_do_not_look_at_the_header() {
    let node = Node::start().await;
    for value in ["Bearer ", "Bearer rubbish", "Basic YTpi", "\u{7f}"] {
        let Ok(_) = axum::http::HeaderValue::from_str(value) else { continue };
        let headers = [("authorization", value)];
        let client = node.anonymous();
        let ping = client.send(Method::GET, "/ping", None, &headers).await;
        assert_eq!((ping.status, &ping.body[..]), (200, &b"pong"[..]), "{value}");
        assert_eq!(client.send(Method::GET, "/", None, &headers).await.json["name"], "whippet");
        assert_eq!(client.send(Method::GET, "/openapi.json", None, &headers).await.status, 200);
        let body = json!({"username": "iggy", "password": "secret"}).to_string();
        assert_eq!(client.send(Method::POST, "/users/login", Some(body), &headers).await.status, 200, "{value}");
        assert_eq!(client.send(Method::GET, "/stats", None, &headers).await.error(), (401, 40, None));
    }
    node.stop().await;
}

#[tokio::test]
async fn a_refresh_gives_a_new_token_and_leaves_the_old_one() {
    let node = Node::start().await;
    let client = node.client().await;
    let old = client.token.clone().unwrap();
    let refreshed = node.anonymous().post("/users/refresh-token", json!({"token": old})).await;
    assert_eq!((refreshed.status, &refreshed.json["user_id"]), (200, &json!(0)));
    let mut renewed = client.clone();
    renewed.token = refreshed.json["access_token"]["token"].as_str().map(str::to_owned);
    assert_ne!(renewed.token, client.token);
    assert_eq!(renewed.get("/streams").await.status, 200);
    assert_eq!(client.get("/streams").await.status, 200);
    for token in ["", "rubbish"] {
        assert_eq!(
            node.anonymous().post("/users/refresh-token", json!({"token": token})).await.error(),
            (401, 40, None)
        );
    }
    node.stop().await;
}

#[tokio::test]
async fn a_logout_ends_the_token() {
    let node = Node::start().await;
    let (client, other) = (node.client().await, node.client().await);
    // A write, so that there is a session to end.
    assert_eq!(client.post("/streams", json!({"name": "s"})).await.status, 200);
    assert_eq!(client.delete("/users/logout").await.status, NO_CONTENT);
    assert_eq!(client.get("/streams").await.error(), (401, 40, None));
    let refresh = json!({"token": client.token.as_deref().unwrap()});
    assert_eq!(node.anonymous().post("/users/refresh-token", refresh).await.error(), (401, 40, None));
    assert_eq!(other.get("/streams").await.status, 200);
    assert_eq!(node.anonymous().delete("/users/logout").await.error(), (401, 40, None));
    node.stop().await;
}
