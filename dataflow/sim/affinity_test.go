package sim_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Rooms is a location whose keys are divided by room: see [seatKey].
type Rooms struct{ dataflow.Cluster }

// Halls is another location with the same division.
type Halls struct{ dataflow.Cluster }

// A seatKey belongs to its room.
type seatKey struct {
	Room string
	N    int
}

func (k seatKey) Affinity() string { return k.Room }

// A roomKey is a room.
type roomKey string

func (k roomKey) Affinity() string { return string(k) }

// TestAffinity checks that a simulation reports an entry made from a record of another partition. A
// durable flow with several partitions would not find the entry. A simulation has one partition, where
// nothing would be missing.
func TestAffinity(t *testing.T) {
	type sends = func(b bench) error
	byRoom := func(rooms dataflow.KeyedStream[roomKey, string, Rooms, unbounded, dataflow.NoOrder, once]) {
		keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(rooms, tried)), "rooms")
	}
	tests := []struct {
		name  string
		build func(f *dataflow.Flow, at Rooms) sends
		wrong string
	}{{"the room of a seat", func(_ *dataflow.Flow, at Rooms) sends {
		in, seats := keyedsingleton.Input[seatKey, string](at, "seats")
		called := keyedsingleton.MapAsync(seats, func(_ context.Context, v string) string { return v }, keyedsingleton.AsyncOptions{})
		all := keyedstream.Merge(keyedsingleton.IntoKeyedStream(called), keyedsingleton.IntoKeyedStream(seats))
		byRoom(keyedstream.Rekey(all, func(k seatKey, _ string) roomKey { return roomKey(k.Room) }))
		return func(b bench) error { return in.Put(b.Context(), seatKey{"a", 1}, "ann") }
	}, ""}, {"another room", func(_ *dataflow.Flow, at Rooms) sends {
		in, seats := keyedsingleton.Input[seatKey, string](at, "seats")
		byRoom(keyedstream.Rekey(keyedsingleton.IntoKeyedStream(seats), func(_ seatKey, v string) roomKey { return roomKey(v) }))
		return func(b bench) error { return in.Put(b.Context(), seatKey{"a", 1}, "b") }
	}, `the key b belongs where the affinity "b" is placed, and it is made of a record that is placed by "a"`}, {"another room, of what a call answers", func(_ *dataflow.Flow, at Rooms) sends {
		in, seats := keyedsingleton.Input[seatKey, string](at, "seats")
		called := keyedsingleton.MapAsync(seats, func(context.Context, string) string { return "b" }, keyedsingleton.AsyncOptions{})
		byRoom(keyedstream.Rekey(keyedsingleton.IntoKeyedStream(called), func(_ seatKey, v string) roomKey { return roomKey(v) }))
		return func(b bench) error { return in.Put(b.Context(), seatKey{"a", 1}, "a") }
	}, `it is made of a record that is placed by "a"`}, {"a key without affinity", func(_ *dataflow.Flow, at Rooms) sends {
		in, names := keyedsingleton.Input[string, string](at, "names")
		byRoom(keyedstream.Rekey(keyedsingleton.IntoKeyedStream(names), func(name string, _ string) roomKey { return roomKey(name) }))
		return func(b bench) error { return in.Put(b.Context(), "a", "a") }
	}, "it is made of a record that is placed by itself"}, {"an element", func(_ *dataflow.Flow, at Rooms) sends {
		in, names := dataflow.Input[string](at, "names")
		keyedsingleton.Output(keyedstream.First(dataflow.KeyBy(names, func(name string) roomKey { return roomKey(name) })), "rooms")
		return func(b bench) error { return in.Send(b.Context(), "a") }
	}, "it is made of a record that is placed by itself"}, {"another room, that is sent", func(f *dataflow.Flow, at Rooms) sends {
		in, seats := keyedsingleton.Input[seatKey, string](at, "seats")
		moved := keyedstream.Send(keyedstream.Rekey(keyedsingleton.IntoKeyedStream(seats), func(_ seatKey, v string) roomKey { return roomKey(v) }), dataflow.At[Halls](f))
		keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(moved, tried)), "halls")
		return func(b bench) error { return in.Put(b.Context(), seatKey{"a", 1}, "b") }
	}, ""}}
	for _, test := range tests {
		program := func(s *sim.Sim) {
			b := bench{s, dataflow.At[Server](s.Flow())}
			send := test.build(s.Flow(), dataflow.At[Rooms](s.Flow()))
			b.Start()
			b.Check(send(b))
			b.Quiesce()
		}
		if test.wrong == "" {
			sim.Exhaustive(t, program)
			continue
		}
		if story, _ := sim.Fails(t, program); !strings.Contains(story, test.wrong) {
			t.Errorf("%s: %s", test.name, story)
		}
	}
}
