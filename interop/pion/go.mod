module festina.invalid/interop/pion

go 1.24.0

require (
	github.com/pion/logging v0.2.4
	github.com/pion/sctp v1.10.3
)

require (
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v4 v4.0.2 // indirect
)
