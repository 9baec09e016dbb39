//! Prints the structure of the sender in figures: of this repository, or of another checkout whose folder is named.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use festina_tidy::structure::Structure;
use festina_tidy::tree::{files, root};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).map_or_else(root, PathBuf::from);
    print!("{}", Structure::of(&files(&folder)?)?);
    Ok(())
}
