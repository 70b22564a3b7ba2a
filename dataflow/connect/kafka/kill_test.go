package kafka_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

func durably[P any](build func(*dataflow.Flow) P) (*durable.App[P], error) {
	return durable.Start(context.Background(), build, durable.Options{Log: disklog.Dir(os.Getenv(dirVar)), Logger: slog.New(slog.DiscardHandler)})
}

func seeds() []string { return strings.Split(os.Getenv(seedsVar), ",") }

// Each partition of the topic to read has the numbers from 1 to killRecords, and one bad record among them.
const (
	killParts   = 4
	killRecords = 25_000
)

type tallies struct {
	in   *connect.Port[string, int64, dataflow.TotalOrder, dataflow.ExactlyOnce]
	dead *connect.DeadLetterPort
	out  *dataflow.EntryOutputPort[string, tally]
	bad  *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
}

// A tally summarizes what a flow has taken of a partition. Wrong counts numbers that do not follow the previous one.
type tally struct{ N, Sum, Wrong, Last int64 }

type reads struct{ dataflow.Process }

func buildTallies(f *dataflow.Flow) (p tallies) {
	at := dataflow.At[reads](f)
	in, records := connect.Input[string, int64](at, "records")
	dead, letters := connect.DeadLetters(at, "letters")
	sums := keyedstream.FoldEarlyStop(records, func() tally { return tally{} }, func(c *tally, x int64) bool {
		c.N++
		c.Sum += x
		if x != c.Last+1 {
			c.Wrong++
		}
		c.Last = x
		return x == killRecords
	})
	return tallies{in, dead, keyedsingleton.Output(sums, "tallies"), keyedstream.Output(letters, "bad")}
}

// readTopic is a child that reads a topic into a durable flow and ends when it has read all of it.
func readTopic() error {
	ctx := context.Background()
	app, err := durably(buildTallies)
	if err != nil {
		return err
	}
	var read atomic.Int64
	r, err := kafka.Topic[struct{}, int64]{Seeds: seeds(), Name: os.Getenv(topicVar), Decode: func(r *kgo.Record) (struct{}, int64, error) {
		if n := read.Add(1); n%100 == 0 {
			far(n)
		}
		if len(r.Value) != 8 {
			return struct{}{}, 0, errNoText
		}
		return struct{}{}, int64(binary.BigEndian.Uint64(r.Value)), nil
	}}.Reader()
	if err != nil {
		return err
	}
	pumps, err := connect.Attach(ctx, app, connect.BySplit(r), app.Ports.in, connect.Options{Floor: 50 * time.Millisecond, DeadLetters: app.Ports.dead})
	if err != nil {
		return err
	}
	for p := range killParts {
		c, err := app.Ports.out.Await(ctx, fmt.Sprintf("%s/%d", os.Getenv(topicVar), p))
		if err != nil {
			return err
		}
		fmt.Printf("partition %d: N=%d Sum=%d Wrong=%d\n", p, c.N, c.Sum, c.Wrong)
	}
	if err := pumps.Stop(ctx); err != nil {
		return err
	}
	if err := app.Stop(ctx); err != nil {
		return err
	}
	bad := 0
	for range app.Ports.bad.All(ctx) {
		bad++
	}
	fmt.Println("letters:", bad)
	return nil
}

// Case 1: a flow that is killed repeatedly receives each record of each partition once, in order, and each bad record as one dead
// letter.
func TestReadersThatAreKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(killParts, nil)
		var failed kgo.FirstErrPromise
		for i := int64(1); i <= killRecords; i++ {
			for p := range int32(killParts) {
				b.cl.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: binary.BigEndian.AppendUint64(nil, uint64(i))}, failed.Promise())
				if i == killRecords/2 {
					b.cl.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte("no number")}, failed.Promise())
				}
			}
		}
		if err := failed.Err(); err != nil {
			t.Fatal(err)
		}
		lines, read := killed(t, b, "read", topic, killRecords/2)
		want := []string{}
		for p := range killParts {
			want = append(want, fmt.Sprintf("partition %d: N=%d Sum=%d Wrong=0", p, killRecords, killRecords*(killRecords+1)/2))
		}
		equal(t, "flow", lines, append(want, fmt.Sprint("letters: ", killParts)))
		t.Logf("at least %d records were read, of %d", read, killParts*killRecords)
	})
}

// writeNumbers is the number of elements that TestWritersThatAreKilled writes.
const writeNumbers = 20_000

type numbers struct {
	in  *dataflow.InputPort[int64]
	out *dataflow.OutputPort[int64]
}

type writes struct{ dataflow.Process }

func buildNumbers(f *dataflow.Flow) numbers {
	in, xs := dataflow.Input[int64](dataflow.At[writes](f), "numbers")
	return numbers{in, dataflow.Output(xs, "out")}
}

// writeTopic is a child that writes the output of a durable flow to a topic and ends when everything is written.
func writeTopic() error {
	ctx := context.Background()
	app, err := durably(buildNumbers)
	if err != nil {
		return err
	}
	topic := os.Getenv(topicVar)
	var encoded atomic.Int64
	sink := kafka.Sink[int64]{Seeds: seeds(), Topic: topic, Encode: func(n uint64, x int64) (*kgo.Record, error) {
		if k := encoded.Add(1); k%10 == 0 {
			far(k)
		}
		return &kgo.Record{Value: strconv.AppendInt(nil, x, 10)}, nil
	}}
	drains := connect.Drain(ctx, app, app.Ports.out, sink, connect.DrainOptions{Flow: topic, Output: "out", Most: 500})
	for i := int64(1); i <= writeNumbers; i += 1000 {
		xs := make([]int64, 1000)
		for j := range xs {
			xs[j] = i + int64(j)
		}
		if _, err := app.Ports.in.SendBatchNumbered(ctx, uint64(i), xs); err != nil {
			return errors.Join(err, drains.Err())
		}
	}
	for range time.Tick(5 * time.Millisecond) {
		select {
		case <-drains.Done():
			return drains.Err()
		default:
		}
		if lanes := drains.Status(); len(lanes) > 0 && lanes[0].Number == writeNumbers {
			break
		}
	}
	return errors.Join(drains.Stop(ctx), app.Stop(ctx))
}

// Case 26: a writer that is killed during transactions writes each element once, in order.
func TestWritersThatAreKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		killed(t, b, "write", topic, writeNumbers/10)
		equal(t, "values", b.values(topic)[0], count(1, writeNumbers+1))
	})
}
