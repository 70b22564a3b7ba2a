package keyedstream_test

import (
	"context"
	"maps"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// TestMergeWithWhatIsMadeOfIt sends one batch to an operator twice, with another batch in
// between. It catches hashes of a batch whose memory the other batch overwrites.
func TestMergeWithWhatIsMadeOfIt(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[dataflow.Here](flow)
	in, numbers := dataflow.Input[int](at, "in")
	ks := dataflow.KeyBy(numbers, func(x int) int { return x })
	twice := keyedstream.Merge(ks, ks)
	some, _ := keyedstream.Partition(twice, func(x int) bool { return x > 3 })
	counts := func(ks dataflow.KeyedStream[int, int, dataflow.Here, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce], name string) func() map[int]int {
		out := singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Count(ks)), name)
		return func() map[int]int {
			v, _ := out.Latest()
			return maps.Collect(v.All())
		}
	}
	merged := counts(keyedstream.Merge(twice, some), "merged")
	beside := counts(twice, "beside")
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Stop(context.Background())
	if _, err := in.SendBatch(context.Background(), []int{1, 2, 3, 4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	if got, want := merged(), map[int]int{1: 2, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4}; !maps.Equal(got, want) {
		t.Errorf("merged: %v, want %v", got, want)
	}
	if got, want := beside(), map[int]int{1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2}; !maps.Equal(got, want) {
		t.Errorf("beside: %v, want %v", got, want)
	}
}
