package natslog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestStuckConsumer pauses consumers: they send heartbeats and deliver nothing, as one does on a replica that was
// restarted and still got its messages from the leader when the consumer was made. Records and steps arrive all the same,
// the next ones by another consumer.
func TestStuckConsumer(t *testing.T) {
	t.Parallel()
	l := open(t, natslog.Settings{Dir: t.TempDir(), OpenOptions: journal.OpenOptions{Name: "app", Partitions: 1}})
	ctx := soon(t)
	records, err := l.Read(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	steps, err := l.Steps(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer steps.Close()
	pauseConsumers(ctx, t, l, "IN_app", "ST_app")
	fence := uint64(0)
	for _, want := range []string{"a", "b"} {
		if _, err := l.Append(ctx, 0, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if fence, err = l.Commit(ctx, 0, fence, []byte(want)); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			var ms []journal.Message
			for ms == nil && ctx.Err() == nil { // a caller that waits for moments only gets it, too
				short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				ms, err = records.Next(short, 1<<20)
				cancel()
			}
			if len(ms) != 1 || string(ms[0].Records[0]) != want {
				t.Errorf("records %v, %v, want %q", ms, err, want)
			}
		})
		both.Go(func() {
			if s, err := steps.Next(ctx); err != nil || string(s.Data) != want {
				t.Errorf("step %q, %v, want %q", s.Data, err, want)
			}
		})
		both.Wait()
	}
}

// pauseConsumers pauses all consumers of streams, once each stream has one.
func pauseConsumers(ctx context.Context, t *testing.T, l *natslog.Log, streams ...string) {
	t.Helper()
	js, err := jetstream.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		eventually(t, func(context.Context) error {
			s, err := js.Stream(ctx, stream)
			if err != nil {
				return err
			}
			names := s.ConsumerNames(ctx)
			n := 0
			for name := range names.Name() {
				if _, err := js.PauseConsumer(ctx, stream, name, time.Now().Add(time.Hour)); err != nil {
					return err
				}
				n++
			}
			if n == 0 {
				return errors.New("no consumer")
			}
			return names.Err()
		})
	}
}
