package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Rooms are divided between partitions.
type Rooms struct{ dataflow.Cluster }

// A Seat is placed where its room is.
type Seat struct {
	Room Room
	N    int
}

// Affinity says that a seat belongs to its room.
func (s Seat) Affinity() string { return s.Room.Affinity() }

// A Room is a key as well.
type Room string

// Affinity says that a room is placed by its name.
func (r Room) Affinity() string { return string(r) }

// Seats are sold under their own keys and counted under the key of their room. Both are in one partition, whichever process owns
// it, so the room's key finds the count.
func ExampleStart_affinity() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "millrace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	type ports struct {
		sales *dataflow.EntryInputPort[Seat, string]
		full  *dataflow.EntryOutputPort[Room, int]
	}
	build := func(flow *dataflow.Flow) ports {
		sales, sold := keyedsingleton.Input[Seat, string](dataflow.At[Rooms](flow), "sales")
		byRoom := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(sold), func(s Seat, _ string) Room { return s.Room })
		inOrder := keyedstream.AssumeOrder(byRoom, "seats are only counted")
		full := keyedstream.FoldEarlyStop(inOrder, func() int { return 0 }, func(n *int, _ string) bool { *n++; return *n == 2 })
		return ports{sales, keyedsingleton.Output(full, "full")}
	}
	app, err := durable.Start(ctx, build, durable.Options{Log: disklog.Dir(dir), Partitions: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	app.Ports.sales.Put(ctx, Seat{"blue", 1}, "Ann")
	app.Ports.sales.Put(ctx, Seat{"blue", 2}, "Bob")
	fmt.Println(app.Ports.full.Await(ctx, "blue"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// 2 <nil>
	// <nil>
}
