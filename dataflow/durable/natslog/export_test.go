package natslog

import "github.com/nats-io/nats.go"

// What the tests of this package need of it.
type Settings = settings

var Open = open

// Conn returns the connection.
func (l *Log) Conn() *nats.Conn { return l.nc }
