//! Messages that open data channels.

use festina_web::ChannelOptions;

/// A message that opens a channel.
///
/// # Panics
/// If it reads otherwise once it was written again.
pub fn run(data: &[u8]) {
    let Some((label, options)) = ChannelOptions::read_open(data) else { return };
    assert_eq!(ChannelOptions::read_open(&options.write_open(&label)), Some((label, options)));
}
