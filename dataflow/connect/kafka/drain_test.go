package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// drained runs a durable flow that writes the numbers from first to last. It returns when they are written or the drain has
// ended, with the error of the drain.
func drained(t *testing.T, b *broker, topic, dir string, first, last int) error {
	t.Helper()
	app, err := durable.Start(t.Context(), buildNumbers, durable.Options{Log: disklog.Dir(dir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	sink := kafka.Sink[int64]{Seeds: b.seeds, Topic: topic, Encode: func(_ uint64, x int64) (*kgo.Record, error) {
		return &kgo.Record{Value: []byte(count(int(x), int(x)+1)[0])}, nil
	}}
	var xs []int64
	for x := first; x <= last; x++ {
		xs = append(xs, int64(x))
	}
	if _, err := app.Ports.in.SendBatchNumbered(t.Context(), uint64(first), xs); err != nil {
		t.Fatal(err)
	}
	drains := connect.Drain(t.Context(), app, app.Ports.out, sink, connect.DrainOptions{Flow: topic, Output: "out"})
	b.until(func() bool {
		select {
		case <-drains.Done():
			return true
		default:
			lanes := drains.Status()
			return len(lanes) > 0 && lanes[0].Number == uint64(last)
		}
	})
	stopped := drains.Stop(context.Background())
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	return errors.Join(stopped, drains.Err())
}

// Case 29: the brokers have forgotten the number of a lane that has elements. Writing everything again would duplicate them.
func TestForgottenNumberIsAGap(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic, dir := b.topic(1, nil), t.TempDir()
		if err := drained(t, b, topic, dir, 1, 10); err != nil {
			t.Fatal(err)
		}
		if err := drained(t, b, topic, dir, 11, 20); err != nil {
			t.Fatal(err)
		}
		b.deleteGroup("millrace." + topic + ".out.0")
		if err := drained(t, b, topic, dir, 21, 30); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "the sink has elements up to 0") {
			t.Errorf("%v, want ErrGap", err)
		}
		equal(t, "values", b.values(topic)[0], count(1, 21))
	})
}

// TestOtherFlowIsAhead checks that a flow with another history than the one that wrote the topic is refused.
func TestOtherFlowIsAhead(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	if err := drained(t, b, topic, t.TempDir(), 1, 10); err != nil {
		t.Fatal(err)
	}
	if err := drained(t, b, topic, t.TempDir(), 1, 3); !errors.Is(err, connect.ErrAhead) {
		t.Errorf("%v, want ErrAhead", err)
	}
	equal(t, "values", b.values(topic)[0], count(1, 11))
}
