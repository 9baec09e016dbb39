//! Offers and answers by HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};

use crate::endpoint::WebEndpoint;
use crate::sdp::{OFFER_BYTES_MAX, OfferError};

type Answer = Result<String, (StatusCode, String)>;

/// Returns the paths that [`MODULE`](crate::MODULE) uses: `/festina-web.js`, `/offer` and `/restart/{peer}`.
///
/// An answer to an offer begins with a line with the number by which the page names itself when it restarts ICE. Merge the router with that of
/// your pages, and check the user in front of it.
pub fn signalling(endpoint: Arc<WebEndpoint>) -> Router {
    Router::new()
        .route("/festina-web.js", get(|| async { ([(CONTENT_TYPE, "text/javascript")], crate::MODULE) }))
        .route("/offer", post(answer))
        .route("/restart/{peer}", post(restart))
        .layer(DefaultBodyLimit::max(OFFER_BYTES_MAX))
        .with_state(endpoint)
}

async fn answer(State(endpoint): State<Arc<WebEndpoint>>, offer: String) -> Answer {
    let (id, answer) = endpoint.answer(&offer).await.map_err(|error| refused(&error))?;
    Ok(format!("{}\n{answer}", id.number()))
}

async fn restart(State(endpoint): State<Arc<WebEndpoint>>, Path(peer): Path<u64>, offer: String) -> Answer {
    endpoint.restart(peer, &offer).map_err(|error| refused(&error))
}

fn refused(error: &OfferError) -> (StatusCode, String) {
    // The module asks again later.
    let status = if *error == OfferError::TooMany { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST };
    (status, error.to_string())
}
