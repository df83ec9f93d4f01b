//! The description of the API.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::Fixture;

#[test]
fn document_lists_every_path_and_method() {
    let fixture = Fixture::local();
    let response = fixture.get("/openapi.json").assert_status(200);
    assert_eq!(response.headers["content-type"], "application/json");
    let document = response.body;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    assert_eq!(document["info"]["title"], "Quorate");
    assert!(document["info"]["version"].as_str().is_some_and(|it| !it.is_empty()));
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        found.extend(item.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
    }
    found.sort();
    assert_eq!(
        found,
        [
            "delete /v1/leases/{lease_id}",
            "get /healthz",
            "get /readyz",
            "get /v1/events",
            "get /v1/locks",
            "get /v1/locks/{name}",
            "post /v1/leases/{lease_id}/downgrade",
            "post /v1/leases/{lease_id}/renew",
            "post /v1/locks/{name}/acquire",
        ]
    );
}

#[test]
fn document_is_complete_and_consistent() {
    let fixture = Fixture::local();
    let document = fixture.get("/openapi.json").assert_status(200).body;
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(document.pointer(pointer).is_some(), "{reference} is not there");
    }
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().expect("an operationId");
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            let none = Vec::new();
            let parameters = operation["parameters"].as_array().unwrap_or(&none);
            let in_path: BTreeSet<&str> = parameters
                .iter()
                .filter(|it| it["in"] == "path")
                .inspect(|it| assert_eq!(it["required"], true, "{method} {path}"))
                .filter_map(|it| it["name"].as_str())
                .collect();
            let named: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
            assert_eq!(in_path, named, "{method} {path}");
            let responses = operation["responses"].as_object().expect("responses");
            assert!(!responses.is_empty(), "{method} {path}");
            for (status, response) in responses {
                assert!(response["description"].is_string(), "{method} {path} {status}");
                let problem = &response["content"]["application/problem+json"]["schema"]["$ref"];
                let is_problem = status.parse::<u16>().unwrap() >= 400;
                assert_eq!(
                    problem == "#/components/schemas/Problem",
                    is_problem,
                    "{path} {status}"
                );
            }
        }
    }
}

#[test]
fn responses_have_the_fields_of_the_document() {
    let fixture = Fixture::nodes(1);
    let document = fixture.get("/openapi.json").assert_status(200).body;
    let acquired = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    let set = fixture.acquire("a", &json!({ "also": ["b"] })).assert_status(200);
    let entry = fixture.acquire("entered", &json!({ "identity": "i" })).assert_status(200);
    let entered = fixture.get("/v1/locks/entered").assert_status(200);
    let held = fixture.acquire("job", &json!({})).assert_problem(409, "held");
    let renewed = fixture.renew(&acquired.lease_id()).assert_status(200);
    let lock = fixture.get("/v1/locks/job").assert_status(200);
    let downgraded = fixture.downgrade(&acquired.lease_id()).assert_status(200);
    let page = fixture.get("/v1/locks").assert_status(200);
    for (schema, response) in [
        ("Acquired", acquired),
        ("Acquired", set),
        ("Acquired", entry),
        ("Lock", entered),
        ("Problem", held),
        ("Renewed", renewed),
        ("Downgraded", downgraded),
        ("Lock", lock),
        ("Page", page),
    ] {
        let schema = &document["components"]["schemas"][schema];
        let fields = response.body.as_object().unwrap();
        for name in schema["required"].as_array().unwrap() {
            assert!(fields.contains_key(name.as_str().unwrap()), "{name} is missing: {response:?}");
        }
        for name in fields.keys() {
            assert!(schema["properties"].get(name).is_some(), "{name} is not in {schema}");
        }
    }
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| collect_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_references(value, found)),
        _ => {}
    }
}
