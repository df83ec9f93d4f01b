//! One node address, or a list of them.

/// The addresses of nodes: one text, or an array, slice or vector of texts.
///
/// [`Client::connect`](crate::Client::connect) takes it. For other lists, see
/// [`ClientBuilder::nodes`](crate::ClientBuilder::nodes), which takes any iterator.
///
/// # Examples
///
/// ```
/// use quorate::IntoAddresses;
///
/// assert_eq!("redis://10.0.0.1".into_addresses(), ["redis://10.0.0.1"]);
/// let list = vec!["redis://10.0.0.1".to_owned(), "redis://10.0.0.2".to_owned()];
/// assert_eq!(list.into_addresses(), ["redis://10.0.0.1", "redis://10.0.0.2"]);
/// ```
pub trait IntoAddresses {
    /// Returns the addresses in order.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::IntoAddresses;
    ///
    /// assert_eq!(["redis://10.0.0.1"].into_addresses(), ["redis://10.0.0.1"]);
    /// ```
    fn into_addresses(self) -> Vec<String>;
}

impl IntoAddresses for &str {
    fn into_addresses(self) -> Vec<String> {
        vec![self.to_owned()]
    }
}

impl IntoAddresses for String {
    fn into_addresses(self) -> Vec<String> {
        vec![self]
    }
}

impl IntoAddresses for &String {
    fn into_addresses(self) -> Vec<String> {
        vec![self.clone()]
    }
}

impl<S: AsRef<str>> IntoAddresses for &[S] {
    fn into_addresses(self) -> Vec<String> {
        self.iter().map(|address| address.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<str>, const N: usize> IntoAddresses for [S; N] {
    fn into_addresses(self) -> Vec<String> {
        self.as_slice().into_addresses()
    }
}

impl<S: AsRef<str>, const N: usize> IntoAddresses for &[S; N] {
    fn into_addresses(self) -> Vec<String> {
        self.as_slice().into_addresses()
    }
}

impl<S: AsRef<str>> IntoAddresses for Vec<S> {
    fn into_addresses(self) -> Vec<String> {
        self.as_slice().into_addresses()
    }
}

impl<S: AsRef<str>> IntoAddresses for &Vec<S> {
    fn into_addresses(self) -> Vec<String> {
        self.as_slice().into_addresses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_every_kind_of_list_are_accepted() {
        let one = "redis://10.0.0.1".to_owned();
        assert_eq!(one.as_str().into_addresses(), [&*one]);
        assert_eq!((&one).into_addresses(), [&*one]);
        let list = vec![one.clone(), "redis://10.0.0.2".to_owned()];
        let texts = [list[0].as_str(), list[1].as_str()];
        assert_eq!(texts.into_addresses(), list);
        assert_eq!((&texts).into_addresses(), list);
        assert_eq!(texts[..].into_addresses(), list);
        assert_eq!((&list).into_addresses(), list);
        assert_eq!(list.clone().into_addresses(), list);
        assert_eq!(one.clone().into_addresses(), [one]);
    }
}
