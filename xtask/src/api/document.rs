//! What rustdoc writes about one crate, as far as the rules need it.

use serde_json::Value;

/// One crate. An item is found by its number.
pub(super) struct Document(Value);

impl Document {
    /// Understands only the known versions of the format: in another one the rules might look
    /// for what has another name there, and find nothing.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("not from rustdoc: {error}"))?;
        match value["format_version"].as_u64() {
            Some(version) if FORMATS.contains(&version) => Ok(Self(value)),
            Some(version) => Err(format!(
                "this toolchain's rustdoc writes format {version}, and {FORMATS:?} is known: see \
                 what changed, and add it in xtask/src/api/document.rs"
            )),
            None => Err("not from rustdoc: it has no format_version".to_owned()),
        }
    }

    pub(super) fn root(&self) -> Option<Item<'_>> {
        self.item(&self.0["root"])
    }

    /// None for what is not described here: items of other crates, and hidden ones.
    pub(super) fn item(&self, id: &Value) -> Option<Item<'_>> {
        self.0["index"].get(id.to_string()).map(Item)
    }

    /// The items with these numbers. Gaps stand for what is private.
    pub(super) fn items<'a>(&'a self, ids: &'a Value) -> impl Iterator<Item = Item<'a>> {
        ids.as_array().into_iter().flatten().filter_map(|id| self.item(id))
    }

    /// Where an item is at home: first the crate, then the modules, then its name.
    pub(super) fn home(&self, id: &Value) -> Option<Vec<&str>> {
        let path = self.0["paths"].get(id.to_string())?["path"].as_array()?;
        path.iter().map(Value::as_str).collect()
    }

    /// The item whose home this is.
    pub(super) fn at_home(&self, home: &[&str]) -> Option<Item<'_>> {
        let paths = self.0["paths"].as_object()?;
        let is_it = |path: &&Value| path.as_array().is_some_and(|path| path.iter().eq(home));
        let (id, _) = paths.iter().find(|(_, known)| is_it(&&known["path"]))?;
        self.0["index"].get(id).map(Item)
    }
}

/// One item of a crate.
#[derive(Clone, Copy)]
pub(super) struct Item<'a>(&'a Value);

impl<'a> Item<'a> {
    /// What it is, in the words of rustdoc.
    pub(super) fn kind(self) -> &'a str {
        let only = self.0["inner"].as_object().and_then(|inner| inner.keys().next());
        only.map_or("", String::as_str)
    }

    /// What only items of its kind have.
    pub(super) fn inner(self) -> &'a Value {
        &self.0["inner"][self.kind()]
    }

    pub(super) fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub(super) fn docs(self) -> &'a str {
        self.0["docs"].as_str().unwrap_or_default()
    }

    /// The file and the line.
    pub(super) fn place(self) -> String {
        let span = &self.0["span"];
        format!("{}:{}", span["filename"].as_str().unwrap_or("?"), span["begin"][0])
    }
}

/// 57 is that of Rust 1.95.
const FORMATS: &[u64] = &[57];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_version_of_the_document_is_refused() {
        let why = |text: &str| Document::parse(text).err().expect("refused");
        let newer = why(r#"{"format_version": 9999}"#);
        assert!(newer.starts_with("this toolchain's rustdoc writes format 9999"), "{newer}");
        assert!(newer.ends_with("xtask/src/api/document.rs"), "{newer}");
        assert!(why("{}").contains("no format_version"));
        assert!(why("<html>").starts_with("not from rustdoc"));
    }
}
