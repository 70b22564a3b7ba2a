//! The parameters of a job.

use std::collections::HashMap;

/// The parameters in the name of a job, such as `data=random/batch=256`.
pub struct Params<'a>(HashMap<&'a str, &'a str>);

impl<'a> Params<'a> {
    pub fn of(text: &'a str) -> Self {
        Params(text.split('/').filter_map(|p| p.split_once('=')).collect())
    }

    /// The value of a parameter, or an empty text if there is none.
    pub fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The value of a parameter that is a number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.get(name).parse().ok()
    }
}
