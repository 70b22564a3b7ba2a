package natslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/natstest"
)

// TestStuckConsumer pauses consumers: they send heartbeats and deliver nothing, as one does on a replica that was
// restarted and still got its messages from the leader when the consumer was made. A record and a step arrive all the
// same, and another consumer goes on after them.
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
	for _, stream := range []string{"IN_app", "ST_app"} {
		consumers(t, l, stream, func(js jetstream.JetStream, c *jetstream.ConsumerInfo) error {
			_, err := js.PauseConsumer(ctx, stream, c.Name, time.Now().Add(time.Hour))
			return err
		})
	}
	position, err := l.Append(ctx, 0, []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	fence, err := l.Commit(ctx, 0, 0, []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for ctx.Err() == nil { // a caller that waits for moments only gets it, too
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			ms, err := records.Next(short, 1<<20)
			cancel()
			if err == nil {
				if len(ms) != 1 || string(ms[0].Records[0]) != "a" {
					t.Errorf("records %v", ms)
				}
				return
			}
		}
		t.Error("no record has come")
	})
	both.Go(func() {
		if s, err := steps.Next(ctx); err != nil || string(s.Data) != "b" {
			t.Errorf("step %q, %v", s.Data, err)
		}
	})
	both.Wait()
	for stream, after := range map[string]uint64{"IN_app": position, "ST_app": fence} {
		consumers(t, l, stream, func(_ jetstream.JetStream, c *jetstream.ConsumerInfo) error {
			if c.Paused || c.Config.OptStartSeq != after+1 {
				return fmt.Errorf("a consumer of %s is paused: %v, and begins at %d, want %d", stream, c.Paused, c.Config.OptStartSeq, after+1)
			}
			return nil
		})
	}
}

// consumers calls do for the consumers of a stream, once there is one, until it returns nil for each.
func consumers(t *testing.T, l *natslog.Log, stream string, do func(jetstream.JetStream, *jetstream.ConsumerInfo) error) {
	t.Helper()
	js, err := jetstream.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		all, n := s.ListConsumers(ctx), 0
		for c := range all.Info() {
			if n++; err == nil {
				err = do(js, c)
			}
		}
		if n == 0 {
			return errors.New("no consumer")
		}
		return errors.Join(err, all.Err())
	})
}

// TestPolledReader reads with contexts that end before the leader can answer. The reader asks it at intervals all the
// same, not in each call.
func TestPolledReader(t *testing.T) {
	t.Parallel()
	s := &servers{natstest.Start(t, 1, natstest.Config{JetStream: "sync_interval: always"})}
	var questions atomic.Int64
	at := forward(t, strings.TrimPrefix(s.URLs("")[0], "nats://"), func(to, from net.Conn) {
		part := make([]byte, 64<<10)
		for {
			n, err := from.Read(part)
			questions.Add(int64(bytes.Count(part[:n], []byte("STREAM.MSG.GET."))))
			<-time.After(100 * time.Millisecond)
			if _, failed := to.Write(part[:n]); err != nil || failed != nil {
				return
			}
		}
	})
	l := open(t, natslog.Settings{Options: natslog.Options{URLs: []string{"nats://" + at}, Replicas: 1, AssumeDurable: true}})
	ctx := soon(t)
	reader, err := l.Read(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	questions.Store(0)
	poll := func() {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if ms, err := reader.Next(short, 1); err == nil {
			t.Fatalf("read %v", ms)
		}
	}
	for questions.Load() == 0 {
		if poll(); ctx.Err() != nil {
			t.Fatal("the leader was not asked")
		}
	}
	first := time.Now()
	for range 50 {
		poll()
	}
	if asked, most := questions.Load(), 1+int64(time.Since(first)/(5*time.Second)); asked > most {
		t.Errorf("the leader was asked %d times in %v", asked, time.Since(first))
	}
}
