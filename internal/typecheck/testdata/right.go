package p

import (
	"context"
	"strings"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type Server struct{ dataflow.Process }

func f(flow *dataflow.Flow) {
	server := dataflow.At[Server](flow)
	_, sales := dataflow.Input[string](server, "sales")
	bySku := dataflow.KeyBy(sales, strings.ToLower)
	keyedsingleton.Entries(shout(keyedstream.First(bySku)))
	tick := slice.At(server)
	stock := slice.SnapshotEntries(tick, keyedstream.Count(bySku), "a count may be a moment old")
	fresh := slice.BatchEntries(tick, keyedstream.First(bySku), "each is looked at alone")
	number := singleton.Map(keyedsingleton.KeyCount(stock), func(n int) int { return n + 1 })
	keyedsingleton.CrossSingleton(keyedsingleton.JoinKeyedSingleton(fresh, stock), number)
	late := keyedsingleton.After(slice.EmitEntries(fresh), time.Second, "a late notice is fine")
	keyedsingleton.MapAsync(late, func(context.Context, string) error { return nil }, keyedsingleton.AsyncOptions{})
}

func shout[B bounds.Mapped[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[string, string, Server, B],
) dataflow.KeyedSingleton[string, string, Server, Out] {
	return keyedsingleton.Map(ks, strings.ToUpper)
}
