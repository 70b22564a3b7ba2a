package sim_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
)

var recordSaved = flag.Bool("record.saved", false, "make testdata/sold-twice.mrh again, after a change of the format or of the operators of stock")

// A want is an order for some pieces.
type want struct {
	From   string
	Pieces int
}

// stock is a program that sells three pieces of each article. Its first version, which was
// recorded, sold an article as long as one piece was left, however many were ordered.
func stock(f *dataflow.Flow, may func(left, pieces int) bool) (*dataflow.SharedKeyedInputPort[string, want], *dataflow.OutputPort[string]) {
	orders, all := keyedstream.SharedInput[string, want](dataflow.At[Server](f), "orders")
	inOrder := keyedstream.AssumeOrder(all, "who comes first is served first")
	sold := keyedstream.Scan(inOrder, func() int { return 3 }, func(left *int, w want, emit func(string)) {
		if !may(*left, w.Pieces) {
			emit(w.From + " gets none")
			return
		}
		*left -= w.Pieces
		emit(fmt.Sprintf("%s gets %d, %d left", w.From, w.Pieces, *left))
	})
	lines := dataflow.Map(dataflow.AssumeOrder(keyedstream.Entries(sold), "a log"), func(e dataflow.Entry[string, string]) string {
		return e.Key + ": " + e.Value
	})
	return orders, dataflow.Output(lines, "sold")
}

// TestSavedRun shows a regression test of a production run. The file was recorded when the program
// sold pieces that it did not have. The current program runs the same steps.
func TestSavedRun(t *testing.T) {
	const path = "testdata/sold-twice.mrh"
	wrong := func(left, pieces int) bool { return left > 0 } // the program that was recorded
	right := func(left, pieces int) bool { return left >= pieces }
	if *recordSaved {
		saveStock(t, path, wrong)
	}
	run := func(may func(left, pieces int) bool) (sold []string) {
		sim.RerunFile(t, path, func(s *sim.Sim) {
			_, out := stock(s.Flow(), may)
			s.Start()
			sold = sim.Collect(s, out)
		})
		return sold
	}
	if sold := run(wrong); !slices.Contains(sold, "tea: bob gets 2, -1 left") {
		t.Errorf("the program that was recorded sold\n%s", strings.Join(sold, "\n"))
	}
	sold := run(right)
	if len(sold) != 4 || slices.ContainsFunc(sold, func(line string) bool { return strings.Contains(line, "-") }) {
		t.Errorf("more was sold than there was:\n%s", strings.Join(sold, "\n"))
	}
}

// saveStock records a run.
func saveStock(t *testing.T, path string, may func(left, pieces int) bool) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	recorder := recordings.NewRecorder(file)
	flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recorder})
	orders, _ := stock(flow, may)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []want{{"ann", 2}, {"bob", 2}, {"cat", 1}} {
		if err := orders.Send(context.Background(), "tea", w); err != nil {
			t.Fatal(err)
		}
	}
	if err := orders.Send(context.Background(), "milk", want{"ann", 3}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	app.Stop(ctx) // nobody reads the output
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
}
