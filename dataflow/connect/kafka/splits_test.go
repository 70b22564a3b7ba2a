package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// A timed flow stamps its records, which are seconds.
type timed struct {
	in     *connect.Port[string, int, dataflow.TotalOrder, dataflow.ExactlyOnce]
	events *dataflow.OutputPort[string]
	late   *dataflow.OutputPort[string]
	mark   *dataflow.SingletonOutputPort[window.Time]
}

func second(n int) window.Time { return window.Time(0).Add(time.Duration(n) * time.Second) }

func buildTimed(f *dataflow.Flow) timed {
	in, values, notices := connect.SplitsInput[int](dataflow.At[reads](f), "in")
	events, late := window.StampSplits(values, notices, second, window.Disorder{}, "a partition is silent when its leader says so")
	out := func(name string, es dataflow.KeyedStream[string, window.Event[int], reads, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) *dataflow.OutputPort[string] {
		line := func(split string, e window.Event[int]) string {
			return fmt.Sprint(split[strings.LastIndex(split, "/")+1:], " ", e.Value)
		}
		return dataflow.Output(keyedstream.Values(keyedstream.MapWithKey(es, line)), name)
	}
	return timed{in, out("events", events), out("late", late), singleton.Output(window.Mark(keyedstream.Values(events)), "mark")}
}

// timed starts the flow and reads a topic into it.
func (b *broker) timed(t *testing.T, topic string, idle time.Duration, buffer int, decoded func()) (*durable.App[timed], *connect.Pumps) {
	t.Helper()
	app, err := durable.Start(t.Context(), buildTimed, durable.Options{Log: disklog.Dir(t.TempDir()), Logger: slog.New(slog.DiscardHandler), Flow: dataflow.Options{Buffer: buffer}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := kafka.Topic[struct{}, int]{Seeds: b.seeds, Name: topic, Decode: func(r *kgo.Record) (struct{}, int, error) {
		decoded()
		n, err := strconv.Atoi(string(r.Value))
		return struct{}{}, n, err
	}}.Reader()
	if err != nil {
		t.Fatal(err)
	}
	pumps, err := connect.Attach(t.Context(), app, connect.BySplit(r), app.Ports.in, connect.Options{Idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	return app, pumps
}

// Case 22: one partition is silent, and after a period the mark advances without it. When the partition has records again, the
// mark does not go back, and records before it are late.
func TestSilentPartition(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		const idle = 500 * time.Millisecond
		topic := b.topic(3, nil) // the third partition has no records
		b.write(topic, 0, "1", "50")
		b.write(topic, 1, "2", "3")
		app, pumps := b.timed(t, topic, idle, 1000, func() {})
		begun, last, n := time.Now(), window.Past, 50
		b.until(func() bool {
			n++
			b.write(topic, 0, fmt.Sprint(n))
			m, ok := app.Ports.mark.Latest()
			if ok && m < last {
				t.Fatalf("the mark goes from %v to %v", last, m)
			}
			if ok && m > window.Past && time.Since(begun) < idle {
				t.Fatalf("after %v the mark is %v", time.Since(begun), m)
			}
			last = max(m, last)
			return ok && m > second(50)
		})
		b.write(topic, 1, "10")
		b.until(func() bool {
			d, err := app.Ports.late.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d.Ack(); d.Value != "1 10" {
				t.Fatalf("late is %s", d.Value)
			}
			return true
		})
		if m, _ := app.Ports.mark.Latest(); m < last {
			t.Errorf("the mark goes back from %v to %v", last, m)
		}
		b.write(topic, 1, fmt.Sprint(n+100)) // the first partition sets the mark
		b.until(func() bool { m, _ := app.Ports.mark.Latest(); return m == second(n) })
		stopTimed(t, app, pumps)
	})
}

func stopTimed(t *testing.T, app *durable.App[timed], pumps *connect.Pumps) {
	t.Helper()
	if err := pumps.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// Case 23: a flow that accepts nothing for longer than the period makes no partition idle, and nothing is late when it continues.
func TestBlockedPartitionIsNotIdle(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		const each, idle = 60_000, 300 * time.Millisecond
		topic := b.topic(2, nil)
		var values []string
		for i := range each {
			values = append(values, fmt.Sprintf("%0200d", i))
		}
		b.write(topic, 0, values...)
		b.write(topic, 1, values...)
		var decoded atomic.Int64
		app, pumps := b.timed(t, topic, idle, 1000, func() { decoded.Add(1) })
		for before := int64(-1); decoded.Load() == 0 || decoded.Load() != before; { // until nothing has arrived for a while
			before = decoded.Load()
			<-time.After(5 * idle)
		}
		if n := decoded.Load(); n == 2*each {
			t.Error("nothing is blocked")
		}
		for range 2 * each {
			d, err := app.Ports.events.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d.Ack()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d, err := app.Ports.late.Receive(ctx); err == nil {
			t.Errorf("%s is late", d.Value)
		}
		stopTimed(t, app, pumps)
	})
}
