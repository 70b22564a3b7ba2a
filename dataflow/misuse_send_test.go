package dataflow_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type shards struct{ dataflow.Cluster }

// TestMisuseOfSend is [TestMisuse] for records sent to other locations.
func TestMisuseOfSend(t *testing.T) {
	input := func(at server) numbers { _, s := dataflow.Input[int](at, "numbers"); return s }
	tests := []struct {
		name string
		prog func(flow *dataflow.Flow, at server)
		want string
	}{{
		"out of a slice",
		func(flow *dataflow.Flow, at server) {
			dataflow.Send(slice.Batch(slice.At(at), input(at), why), dataflow.At[client](flow))
		},
		"dataflow: Send: the collection is inside the slice made at F:N: emit it first",
	}, {
		"keyed, out of a slice",
		func(flow *dataflow.Flow, at server) {
			keyedstream.Send(slice.BatchKeyed(slice.At(at), dataflow.KeyBy(input(at), itself), why), dataflow.At[client](flow))
		},
		"keyedstream: Send: the collection is inside the slice made at F:N: emit it first",
	}, {
		"entries, out of a slice",
		func(flow *dataflow.Flow, at server) {
			_, jobs := keyedsingleton.Input[string, int](at, "jobs")
			keyedsingleton.Send(slice.BatchEntries(slice.At(at), jobs, why), dataflow.At[client](flow))
		},
		"keyedsingleton: Send: the collection is inside the slice made at F:N: emit it first",
	}, {
		"divided in a slice",
		func(flow *dataflow.Flow, at server) {
			batch := slice.BatchKeyed(slice.At(at), dataflow.KeyBy(input(at), itself), why)
			keyedstream.Divide(batch, dataflow.Members[client](flow, 2))
		},
		"keyedstream: Divide: the collection is inside the slice made at F:N: emit it first",
	}, {
		"into a slice",
		func(flow *dataflow.Flow, at server) {
			dataflow.Send(input(at), slice.At(dataflow.At[client](flow)))
		},
		"dataflow: Send: what is sent comes later and cannot be inside the slice made at F:N: send it to the location and let it in from there",
	}, {
		"to where it is",
		func(_ *dataflow.Flow, at server) { dataflow.Send(input(at), at) },
		"dataflow: Send: the collection is at server already",
	}, {
		"to another flow",
		func(_ *dataflow.Flow, at server) { dataflow.Send(input(at), dataflow.At[client](dataflow.New())) },
		"dataflow: Send: server and client are locations of different flows",
	}, {
		"to no location",
		func(_ *dataflow.Flow, at server) { dataflow.Send(input(at), client{}) },
		"dataflow: Send: the location is a zero value: make it with dataflow.At",
	}, {
		"an order that a cluster does not have",
		func(flow *dataflow.Flow, at server) {
			dataflow.Send(dataflow.Send(input(at), dataflow.At[shards](flow)), at)
		},
		"dataflow: Send: shards is a cluster, whose partitions have no order between them: weaken the order of the stream with dataflow.WeakenOrder",
	}, {
		"two members",
		func(flow *dataflow.Flow, _ server) {
			members := dataflow.Members[client](flow, 2)
			_, a := dataflow.Input[int](members[0], "a")
			_, b := dataflow.Input[int](members[1], "b")
			dataflow.Merge(a, b)
		},
		"dataflow: Merge: the collections live at different locations, client 1 and client 2",
	}, {
		"among nobody",
		func(flow *dataflow.Flow, at server) {
			keyedstream.Divide(dataflow.KeyBy(input(at), itself), []client{})
		},
		"keyedstream: Divide: there are no members: nobody would get anything",
	}, {
		"no members",
		func(flow *dataflow.Flow, _ server) { dataflow.Members[client](flow, 0) },
		"dataflow: Members: 0 members: a location has at least one",
	}, {
		"other members",
		func(flow *dataflow.Flow, _ server) {
			dataflow.Members[client](flow, 2)
			dataflow.Members[client](flow, 2)
			dataflow.Members[client](flow, 3)
		},
		"dataflow: Members: client has 2 members already, not 3",
	}, {
		"members of a location",
		func(flow *dataflow.Flow, _ server) { dataflow.Members[server](flow, 2) },
		"dataflow: Members: server is a location already, made with dataflow.At",
	}, {
		"a location with members",
		func(flow *dataflow.Flow, _ server) {
			dataflow.Members[client](flow, 2)
			dataflow.At[client](flow)
		},
		"dataflow: At: client has members: take the one that is meant from dataflow.Members",
	}}
	place := regexp.MustCompile(`\w+\.go:\d+`)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := place.ReplaceAllString(fmt.Sprint(recover()), "F:N"); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}()
			flow := dataflow.New()
			test.prog(flow, dataflow.At[server](flow))
		})
	}
}
