//! A fence as a parameter and a column of `sqlx`: a `BIGINT`, in every database that has `i64`.

use sqlx::{Database, Decode, Encode, Type, encode::IsNull, error::BoxDynError};

use super::Fence;

impl<DB: Database> Type<DB> for Fence
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        i64::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        i64::compatible(ty)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Fence
where
    i64: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        i64::try_from(*self)?.encode(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Fence
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self::try_from(i64::decode(value)?)?)
    }
}
