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

// TestPutWhenForgotten puts a key again while a step waits for its commit. When the owner
// continues, the key is due to be forgotten and the second put is already in the log.
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

// A gated log reports each record that it has appended. It blocks the next commit when it receives
// a channel from its gate, until that channel is closed.
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
		<-pass // the commit is blocked
		<-pass
	default:
	}
	return g.Log.Commit(ctx, partition, fence, step)
}
