//! A fence as a value of other libraries: it comes back as it was stored.

use quorate::fence::Fence;

/// The smallest fence, one of the present time, and the largest that fits.
fn fences() -> [Fence; 3] {
    [0, 1_800_000_000_000_000, i64::MAX.unsigned_abs()].map(Fence::new)
}

const TOO_LARGE: Fence = Fence::new(u64::MAX);

#[cfg(feature = "serde")]
#[test]
fn fence_is_a_number_in_json() {
    for fence in fences() {
        let text = serde_json::to_string(&fence).expect("a number");
        assert_eq!(text, fence.to_string());
        assert_eq!(serde_json::from_str::<Fence>(&text).expect("a fence"), fence);
    }
    for text in ["-1", "1.5", "\"7\"", "null"] {
        assert!(serde_json::from_str::<Fence>(text).is_err(), "{text}");
    }
}

#[cfg(feature = "rusqlite")]
#[test]
fn fence_is_an_integer_column_of_rusqlite() {
    let connection = rusqlite::Connection::open_in_memory().expect("memory");
    let query = |sql: &str, fence: Fence| {
        connection
            .query_row(sql, [fence], |row| Ok((row.get::<_, Fence>(0)?, row.get::<_, String>(1)?)))
    };
    for fence in fences() {
        let found = query("SELECT ?1, typeof(?1)", fence).expect("it fits");
        assert_eq!(found, (fence, "integer".to_owned()));
    }
    assert!(query("SELECT ?1, typeof(?1)", TOO_LARGE).is_err());
    assert!(query("SELECT -1 - ?1, ''", Fence::ZERO).is_err(), "a negative number is no fence");
}

#[cfg(feature = "sqlx")]
#[tokio::test]
async fn fence_is_a_bigint_column_of_sqlx() {
    use sqlx::{Connection as _, SqliteConnection};

    let mut connection = SqliteConnection::connect("sqlite::memory:").await.expect("memory");
    let table = "CREATE TABLE accounts (fence BIGINT NOT NULL)";
    sqlx::query(table).execute(&mut connection).await.expect("a table");
    for fence in fences() {
        sqlx::query("DELETE FROM accounts").execute(&mut connection).await.expect("no rows");
        let insert = sqlx::query("INSERT INTO accounts VALUES (?)").bind(fence);
        insert.execute(&mut connection).await.expect("it fits");
        let found: Fence = sqlx::query_scalar("SELECT fence FROM accounts WHERE fence <= ?")
            .bind(fence)
            .fetch_one(&mut connection)
            .await
            .expect("the row");
        assert_eq!(found, fence);
    }
    let insert = sqlx::query("INSERT INTO accounts VALUES (?)").bind(TOO_LARGE);
    assert!(insert.execute(&mut connection).await.is_err());
    let negative = sqlx::query_scalar::<_, Fence>("SELECT -1").fetch_one(&mut connection).await;
    assert!(negative.is_err(), "a negative number is no fence");
}
