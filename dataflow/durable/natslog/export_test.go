package natslog

import "github.com/nats-io/nats.go"

// These declarations export internals to the tests of this package.
type Settings = settings

var Open = open

// Conn returns the connection.
func (l *Log) Conn() *nats.Conn { return l.nc }
