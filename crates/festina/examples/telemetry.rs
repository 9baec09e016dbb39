//! A sensor that measures faster than the network takes, and a station that listens to it.
//!
//! Alarms must arrive: their sender waits for room in the send buffer. Readings are only worth their while: what finds no room is counted and
//! let go, and what waits too long is abandoned. Both share one association, on streams of their own.
//!
//! ```text
//! cargo run -p festina --example telemetry
//! ```

use std::error::Error;

use festina::{
    Association, ClientConfig, DEFAULT_SCTP_PORT, Duration, Endpoint, Message, SendError, SendErrorKind, ServerConfig,
    Transport,
};

const READINGS: u16 = 0;
const ALARMS: u16 = 1;

/// Readings between two alarms.
const READINGS_PER_ALARM: u32 = 1_000;

/// How old a reading may get.
const WORTH: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let station = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::plain()).await?;
    let listener = station.listen(DEFAULT_SCTP_PORT)?;
    // A small buffer: old readings wait in the application, which can drop them, and not in the transport.
    let config = ClientConfig::plain().with_transport(Transport::default().with_send_buffer_bytes(16_384));
    let sensor = Endpoint::client("127.0.0.1:0".parse()?, config).await?;
    let association = sensor.connect(station.local_addr()).await?;
    let listening = tokio::spawn(async move {
        match listener.accept().await {
            Some(association) => listen(association).await,
            None => (0, 0),
        }
    });

    let dropped = measure(&association, 20).await?;
    association.shutdown().await?;
    let abandoned = association.stats().sent.messages_abandoned;
    let (readings, alarms) = listening.await?;
    println!(
        "{readings} readings and {alarms} alarms arrived; {dropped} readings found no room, {abandoned} got too old"
    );
    Ok(())
}

/// Measures until `alarms` alarms have been sent. Returns the number of readings that found no room.
async fn measure(association: &Association, alarms: u32) -> Result<u64, SendError> {
    let mut dropped = 0;
    for alarm in 0..alarms {
        for number in 0..READINGS_PER_ALARM {
            let reading = Message::new(number.to_be_bytes().repeat(32)).on_stream(READINGS).with_lifetime(WORTH);
            match association.try_send(reading) {
                Ok(_) => {}
                Err(SendError { kind: SendErrorKind::BufferFull, .. }) => dropped += 1,
                Err(error) => return Err(error),
            }
        }
        association.send(Message::new(alarm.to_be_bytes().to_vec()).on_stream(ALARMS)).await?;
    }
    Ok(dropped)
}

/// Counts readings and alarms until the sensor is done.
async fn listen(association: Association) -> (u64, u64) {
    let (mut readings, mut alarms) = (0, 0);
    while let Ok(Some(message)) = association.recv().await {
        match message.stream().0 {
            ALARMS => alarms += 1,
            _ => readings += 1,
        }
    }
    (readings, alarms)
}
