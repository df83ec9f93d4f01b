//! A fence as a parameter and a column of `rusqlite`: an `INTEGER`.

use rusqlite::{
    Error,
    types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef},
};

use super::Fence;

impl ToSql for Fence {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = i64::try_from(*self);
        number.map(Into::into).map_err(|error| Error::ToSqlConversionFailure(error.into()))
    }
}

impl FromSql for Fence {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = i64::column_result(value)?;
        Self::try_from(number).map_err(|_| FromSqlError::OutOfRange(number))
    }
}
