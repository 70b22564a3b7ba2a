package jobs

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedstream"
)

// LookedAt compares a flow with and without a reader of its page: ints through seven maps and a count
// by key. Counted counts elements, without a reader. Millrace has a reader that requests the figures
// ten times a second, which is ten times as often as the script of the page does.
func LookedAt() []Job {
	ints := chainData(func(i int) int { return i })
	var jobs []Job
	for _, batch := range []int{256, 1} {
		jobs = append(jobs, Job{
			Name: "LookedAt", Params: fmt.Sprintf("work=count/batch=%d", batch), CPU: true,
			Targets: []Target{{AtMost: 1.02, Bound: 2}, {Of: "counted", AtMost: 1.02, Bound: 2}},
			Impls: []ratio.Impl{
				{Name: "plain", New: func() ratio.Run { return lookedAt(ints, batch, false, false) }},
				{Name: "counted", New: func() ratio.Run { return lookedAt(ints, batch, true, false) }},
				{Name: "millrace", New: func() ratio.Run { return lookedAt(ints, batch, true, true) }},
			},
		})
	}
	return jobs
}

func lookedAt(data []int, batch int, counts, looks bool) ratio.Run {
	f := dataflow.NewWithOptions(dataflow.Options{Count: counts})
	in, xs := dataflow.Input[int](dataflow.At[bench](f), "ints")
	for _, step := range newSteps(7) {
		xs = dataflow.Map(xs, step)
	}
	t, add := newTotal()
	dataflow.ForEach(xs, add)
	keyedstream.Count(dataflow.KeyBy(xs, func(x int) int { return x & 1023 }))
	app := start(f)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		if looks {
			lookAt(app, done)
		}
	}()
	return mapsRun(data, 7, 1, t, func() { send(in, data, batch) }, func() {
		close(done)
		<-gone
		stop(app)
	})
}

// lookAt requests the page once, and then its figures, until done is closed.
func lookAt(app *dataflow.App, done <-chan struct{}) {
	server := httptest.NewServer(inspect.Handler(app, inspect.Options{}))
	defer server.Close()
	get := func(path string) {
		r, err := http.Get(server.URL + path)
		must(err)
		_, err = io.Copy(io.Discard, r.Body)
		must(err)
		must(r.Body.Close())
	}
	get("/")
	each := time.NewTicker(100 * time.Millisecond)
	defer each.Stop()
	for {
		get("/v1/status")
		select {
		case <-each.C:
		case <-done:
			return
		}
	}
}
