package main

import (
	"fmt"
	"net"

	"github.com/millrace/millrace/agentproto/runtime"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/internal/edge"
)

// A watched is a runtime that keeps what it does.
type watched struct{ rt *runtime.Runtime }

// Health returns how its flow is.
func (w watched) Health() durable.Health {
	h, _ := w.rt.Health()
	return h
}

// serveMonitor serves what probes and Prometheus ask for, until stop is called. It goes on while
// the runtime stops: whoever asks then is told so.
func serveMonitor(flow monitor.Flow, address string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	local, err := onLoopback(address)
	if err != nil {
		listener.Close()
		return nil, err
	}
	server := edge.New(edge.Guard(edge.Policy{AnyHost: !local}, monitor.Handler(flow)), edge.Options{})
	fmt.Fprintf(stderr, "millrace serve: metrics at http://%s/metrics\n", listener.Addr())
	go server.Serve(listener)
	return func() { server.Close() }, nil
}
