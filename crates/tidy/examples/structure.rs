//! Prints the structure of the core in figures, and the circles of modules: of this repository, or of another checkout whose folder is named.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use festina_tidy::circles::circles;
use festina_tidy::passage::passages;
use festina_tidy::structure::Structure;
use festina_tidy::tree::{files, root};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).map_or_else(root, PathBuf::from);
    let files = files(&folder)?;
    print!("{}", Structure::of(&files)?);
    for circle in circles(&files)? {
        println!("circle of {} modules: {}", circle.modules, circle.name);
        circle.reasons.iter().for_each(|reason| println!("  {reason}"));
    }
    for (event, passage) in passages(&files, &env::temp_dir().join("festina-passage"))? {
        print!("{event}: {passage}");
    }
    Ok(())
}
