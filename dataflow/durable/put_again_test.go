package durable

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestPutWhenForgotten has a key put again while a step waits to be committed. When the owner goes
// on, the time has come at which the key is forgotten, and the put is there already.
func TestPutWhenForgotten(t *testing.T) {
	const remembered = 20 * time.Millisecond
	forgetting := func(f *dataflow.Flow) paymentPorts[int] {
		in, all := keyedsingleton.InputWithin[string, int](dataflow.At[members](f), "payments", dataflow.Retain{For: remembered}, "tested")
		return paymentPorts[int]{in, keyedsingleton.Output(all, "paid")}
	}
	gate, sent := make(chan chan struct{}, 1), make(chan struct{}, 10)
	app := start(t, nil, forgetting, Options{Log: gated{natslog.Embedded(t.TempDir()), sent, gate}, Name: "payments", Partitions: 1})
	put := func(key string, v int) chan error {
		end := make(chan error, 1)
		go func() { end <- app.Ports.in.Put(t.Context(), key, v) }()
		<-sent
		return end
	}
	if err := <-put("a", 1); err != nil {
		t.Fatal(err)
	}
	pass := make(chan struct{})
	gate <- pass
	other := put("b", 1)
	pass <- struct{}{}
	again := put("a", 2)
	<-time.After(2 * remembered)
	close(pass)
	if err := <-other; err != nil {
		t.Error(err)
	}
	if err := <-again; err != nil {
		t.Errorf("put again: %v", err)
	}
	stop(t, app)
}

// A gated log says when a record is in it, and holds up the next commit from when it takes
// from what comes through its gate until that is closed.
type gated struct {
	journal.Opener
	sent chan<- struct{}
	gate <-chan chan struct{}
}

type gatedLog struct {
	journal.Log
	gated
}

func (g gated) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	log, err := g.Opener.Open(ctx, o)
	return gatedLog{log, g}, err
}

func (g gatedLog) Append(ctx context.Context, partition int, records ...[]byte) (uint64, error) {
	at, err := g.Log.Append(ctx, partition, records...)
	if err == nil {
		g.sent <- struct{}{}
	}
	return at, err
}

func (g gatedLog) Commit(ctx context.Context, partition int, fence uint64, step []byte) (uint64, error) {
	select {
	case pass := <-g.gate:
		<-pass // it is held up
		<-pass
	default:
	}
	return g.Log.Commit(ctx, partition, fence, step)
}
