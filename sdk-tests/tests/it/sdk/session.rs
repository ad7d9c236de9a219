//! Login, logout, and what an anonymous client may do.

use crate::support::{Context, assert_code, connect_anonymous};
use iggy::prelude::*;

over_both_transports!(
    logs_in_with_the_right_password,
    refuses_wrong_credentials_and_stays_usable,
    asks_for_a_login,
    logs_out_and_in_again,
    answers_ping_before_the_login,
);

async fn logs_in_with_the_right_password(context: &Context) {
    let client = connect_anonymous(&context.server, context.transport).await;
    let identity = client.login_user("iggy", "iggy").await.expect("root logs in");
    assert_eq!(identity.user_id, 0, "root has number 0");
    assert_eq!(client.get_streams().await.expect("a logged-in client may list streams").len(), 0);
}

async fn refuses_wrong_credentials_and_stays_usable(context: &Context) {
    let client = connect_anonymous(&context.server, context.transport).await;
    assert_code(client.login_user("iggy", "not the password").await, &[42]);
    assert_code(client.login_user("nobody", "iggy").await, &[42]);
    client.login_user("iggy", "iggy").await.expect("the same client may try again");
    client.get_streams().await.expect("list streams");
}

async fn asks_for_a_login(context: &Context) {
    let client = connect_anonymous(&context.server, context.transport).await;
    assert_code(client.get_streams().await, &[40]);
    assert_code(client.create_stream("s").await, &[40]);
    assert_eq!(context.client.get_streams().await.expect("list streams").len(), 0, "nothing was created");
}

async fn logs_out_and_in_again(context: &Context) {
    let client = connect_anonymous(&context.server, context.transport).await;
    client.login_user("iggy", "iggy").await.expect("first login");
    client.create_stream("before").await.expect("create stream");
    client.logout_user().await.expect("logout");
    assert_code(client.get_streams().await, &[40]);
    client.login_user("iggy", "iggy").await.expect("second login");
    client.create_stream("after").await.expect("create stream");
    let names: Vec<String> = client.get_streams().await.expect("list").into_iter().map(|stream| stream.name).collect();
    assert_eq!(names, ["before", "after"]);
}

async fn answers_ping_before_the_login(context: &Context) {
    let client = connect_anonymous(&context.server, context.transport).await;
    client.ping().await.expect("ping needs no login");
    context.client.ping().await.expect("ping after the login");
}
