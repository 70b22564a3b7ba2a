package durable

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A person is known by two names, one of which may be absent.
type person struct {
	First string
	Last  *string
}

// built returns what the flow that build makes panics with, or how its start fails.
func built(t *testing.T, codec Codec, build func(at server)) (why string) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			why = fmt.Sprint(v)
		}
	}()
	log := journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 1})}
	app, err := Start(t.Context(), func(f *dataflow.Flow) struct{} {
		build(dataflow.At[server](f))
		return struct{}{}
	}, quiet(Options{Log: log, Codec: codec}))
	if err != nil {
		return err.Error()
	}
	stop(t, app)
	return ""
}

// TestPointerKey builds flows that compare pointers. A pointer is decoded as another one, so a key would count as new each time
// that it comes, and they are refused. A pointer that nothing compares, or that is compared within a slice only, is accepted.
func TestPointerKey(t *testing.T) {
	last := func(p person) person { return p }
	for name, test := range map[string]struct {
		build func(server)
		want  string // empty if it is accepted
	}{
		"input of entries": {func(at server) {
			keyedsingleton.Input[*int, int](at, "in")
		}, "keyedsingleton: Input in: *int cannot be a key of a durable flow: *int is a pointer, which is decoded as another pointer: use what it points to"},
		"pointer to what encodes itself": {func(at server) {
			keyedsingleton.Input[*netip.Addr, int](at, "in")
		}, "*netip.Addr is a pointer"},
		"field": {func(at server) {
			keyedsingleton.Input[person, int](at, "in")
		}, "durable.person cannot be a key of a durable flow: field Last of durable.person: *string is a pointer"},
		"field of an element": {func(at server) {
			keyedsingleton.Input[[2]person, int](at, "in")
		}, "[2]durable.person cannot be a key of a durable flow: field Last of durable.person"},
		"Unique": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			dataflow.Unique(in)
		}, "dataflow: Unique: durable.person cannot be a key"},
		"Unique by key": {func(at server) {
			_, in := keyedstream.Input[string, person](at, "in")
			keyedstream.Unique(in)
		}, "cannot be a key of a durable flow"},
		"First": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			keyedsingleton.Output(keyedstream.First(dataflow.KeyBy(in, last)), "out")
		}, "keyedstream: First: durable.person cannot be a key"},
		"FirstWithin": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			keyedstream.FirstWithin(dataflow.KeyBy(in, last), dataflow.Retain{Keys: 10}, "nothing is sent")
		}, "durable.person cannot be a key"},
		"client of a sequence": {func(at server) {
			_, in := keyedstream.Input[int, int](at, "in")
			name := "ann"
			client := func(k int) (person, uint64) { return person{"ann", &name}, uint64(k) }
			keyedstream.First(in, dataflow.Sequenced(client))
		}, "durable.person cannot be a key"},
		"Join": {func(at server) {
			_, a := keyedstream.Input[person, int](at, "a")
			_, b := keyedstream.Input[person, int](at, "b")
			keyedstream.Join(a, b)
		}, "keyedstream: Join: durable.person cannot be a key"},
		"view": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Count(dataflow.KeyBy(in, last))), "view")
		}, "durable.person cannot be a key"},
		"map": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			dataflow.Output(dataflow.Map(in, last), "out")
		}, ""},
		"keys that nothing compares": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			dataflow.Output(keyedstream.Values(keyedstream.Map(dataflow.KeyBy(in, last), last)), "out")
		}, ""},
		"value": {func(at server) {
			_, in := keyedstream.Input[string, *person](at, "in")
			keyedsingleton.Output(keyedstream.First(in), "out")
		}, ""},
		"slice": {func(at server) {
			_, in := dataflow.Input[person](at, "in")
			batch := slice.Batch(slice.At(at), in, "nothing is sent")
			dataflow.Output(slice.Emit(dataflow.Unique(batch)), "out")
		}, ""},
		"address": {func(at server) {
			keyedsingleton.Input[netip.Addr, int](at, "in")
		}, ""},
		"marker without a value": {func(at server) {
			keyedsingleton.Input[struct {
				_    [0]*int
				Name string
			}, int](at, "in")
		}, ""},
		"time": {func(at server) {
			keyedsingleton.Input[[1]struct{ T time.Time }, int](at, "in")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			why := built(t, nil, test.build)
			if (test.want == "") != (why == "") || !strings.Contains(why, test.want) {
				t.Errorf("%q, want %q", why, test.want)
			}
		})
	}
}

// An interning codec gives equal pointers for equal values, as far as it says.
type interning struct{ Codec }

// A checking codec has an opinion about keys.
type checking struct{ Codec }

func (checking) CheckKey(t reflect.Type) error {
	if t.Kind() == reflect.String {
		return fmt.Errorf("names are folded")
	}
	return nil
}

// TestPointerKeyOfCodec checks that another codec decides which keys it preserves.
func TestPointerKeyOfCodec(t *testing.T) {
	pointers := func(at server) { keyedsingleton.Input[*int, int](at, "in") }
	names := func(at server) { keyedsingleton.Input[string, int](at, "in") }
	if why := built(t, interning{CBOR()}, pointers); why != "" {
		t.Errorf("pointers of a codec that accepts them: %s", why)
	}
	if why := built(t, checking{CBOR()}, names); !strings.HasSuffix(why, "string cannot be a key of a durable flow: names are folded") {
		t.Errorf("names of a codec that refuses them: %q", why)
	}
	if why := built(t, checking{CBOR()}, pointers); why != "" {
		t.Errorf("pointers of a codec that accepts them: %s", why)
	}
}
