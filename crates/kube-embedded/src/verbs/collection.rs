//! Deleting a whole collection: one object after the other, each as if it had been asked for by name.

use super::select::Selection;
use super::{Answer, Call, delete, read};
use crate::error::Result;

pub async fn delete(call: &Call) -> Result<Answer> {
    let options = delete::options(call)?;
    let selection = Selection::of(call)?;
    let page = read::page(call, &selection)?;
    for object in &page.objects {
        let one = call.about(&object.namespace, &object.name);
        match delete::remove(&one, &options).await {
            Ok(_) => {}
            // Gone meanwhile is what was wanted.
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
        call.warnings.lock().append(&mut one.warnings.lock());
    }
    Ok(Answer::List(page))
}
