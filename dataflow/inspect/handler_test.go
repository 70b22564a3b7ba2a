package inspect_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

var update = flag.Bool("update", false, "rewrite golden files")

type server struct{ dataflow.Process }

// ballots holds the ports of a flow that counts votes and logs them.
type ballots struct {
	in     *dataflow.InputPort[string]
	counts *dataflow.EntryOutputPort[string, int]
	log    *dataflow.OutputPort[string]
}

func count(flow *dataflow.Flow) (b ballots) {
	b = counted(flow, "votes", "each is counted once")
	b.counts = dataflow.Named("third", b.counts)
	return b
}

// counted builds the flow with a given input name and reason.
func counted(flow *dataflow.Flow, name, why string) (b ballots) {
	in, votes := dataflow.Input[string](dataflow.At[server](flow), name)
	first := keyedstream.FoldEarlyStop(keyedstream.AssumeOrder(dataflow.KeyBy(dataflow.WeakenOrder(votes), strings.ToLower), dataflow.NonDet(why)), func() int { return 0 }, func(n *int, _ string) bool {
		*n++
		return *n == 3
	})
	return ballots{in, keyedsingleton.Output(first, "counts of "+name), dataflow.Output(votes, "log of "+name)}
}

// counting starts a flow whose location stops when more than four elements are unread.
func counting(t *testing.T) (*dataflow.App, ballots) {
	t.Helper()
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true, Buffer: 4, OnBlocked: func(*dataflow.BlockedError) {}})
	ports := count(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, ports
}

// ask makes a request. The header consists of pairs of a name and a value.
func ask(t *testing.T, h http.Handler, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Host = "localhost:7341"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

// healthy checks the reasons why a flow is not healthy.
func healthy(t *testing.T, app inspect.App, want ...inspect.Reason) {
	t.Helper()
	probed(t, inspect.Handler(app, inspect.Options{}), want...)
}

func probed(t *testing.T, h http.Handler, want ...inspect.Reason) {
	t.Helper()
	resp, body := ask(t, h, "GET", "/healthz")
	var is struct{ Reasons []inspect.Reason }
	if err := json.Unmarshal([]byte(body), &is); err != nil || !slices.Equal(is.Reasons, want) || (resp.StatusCode == http.StatusOK) != (want == nil) {
		t.Errorf("healthz is %d %s, %v, want %v", resp.StatusCode, body, err, want)
	}
}

// TestLongStep has a step that hangs, and others that take a while without a probe in between.
// Only a step that continues from one probe to a much later one counts as hanging.
func TestLongStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, all := dataflow.Input[int](dataflow.At[server](flow), "in")
		gate := make(chan struct{})
		dataflow.Output(dataflow.Map(all, func(i int) int { <-gate; return i }), "out")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		h := inspect.Handler(app, inspect.Options{})
		for range 2 {
			<-time.After(time.Hour)
			go in.Send(t.Context(), 1)
			synctest.Wait()
			probed(t, h) // the step may have just begun
			<-time.After(20 * time.Second)
			probed(t, h)
			gate <- struct{}{}
			go in.Send(t.Context(), 1)
			synctest.Wait()
			<-time.After(20 * time.Second)
			probed(t, h) // another step
			gate <- struct{}{}
		}
		go in.Send(t.Context(), 1)
		synctest.Wait()
		probed(t, h)
		<-time.After(31 * time.Second)
		probed(t, h, inspect.StepHangs)
		gate <- struct{}{}
		synctest.Wait()
		probed(t, h)
	})
}

// TestStopped has an output that nobody reads. The page, the JSON and the probe report it until
// the output is read.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, ports := counting(t)
		h := inspect.Handler(app, inspect.Options{Name: "ballots"})
		if resp, body := ask(t, h, "GET", "/healthz"); resp.StatusCode != http.StatusOK {
			t.Errorf("healthz is %d at first: %s", resp.StatusCode, body)
		}
		for _, v := range []string{"a", "b", "A", "c", "a"} {
			if err := ports.in.Send(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(11 * time.Second)
		s := inspect.Take(app)
		if len(s.Stopped) != 1 || s.Stopped[0].Location != "server" || s.At.Sub(s.Stopped[0].Since) != 11*time.Second ||
			!strings.Contains(s.Stopped[0].Why, `output "log of votes"`) || !strings.Contains(s.Stopped[0].Why, "5 unread elements, and 4 may wait") {
			t.Errorf("stopped is %+v", s.Stopped)
		}
		if g := app.Graph(); g.Operators[s.Stopped[0].Operator].Port != "log of votes" {
			t.Errorf("operator %d stops it, of %+v", s.Stopped[0].Operator, g.Operators)
		}
		if resp, body := ask(t, h, "GET", "/healthz"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"blocked"`) || strings.Contains(body, "log") {
			t.Errorf("healthz is %d: %s", resp.StatusCode, body)
		}
		if resp, _ := ask(t, h, "GET", "/livez"); resp.StatusCode != http.StatusOK {
			t.Errorf("livez is %d", resp.StatusCode)
		}
		if _, page := ask(t, h, "GET", "/"); !strings.Contains(page, "<strong>server does not run since 11s ago.</strong>") || !strings.Contains(page, `class="port bad"`) || !strings.Contains(page, ">FULL<") {
			t.Errorf("the page does not say what stops the flow:\n%s", page)
		}
		for range 5 {
			if _, err := ports.log.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if s := inspect.Take(app); len(s.Stopped) != 0 {
			t.Errorf("stopped is %+v when all was read", s.Stopped)
		}
		healthy(t, app)
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFigures compares the counts in a snapshot with the records sent.
func TestFigures(t *testing.T) {
	app, ports := counting(t)
	for _, v := range []string{"a", "b", "A"} {
		if err := ports.in.Send(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	s, g := inspect.Take(app), app.Graph()
	at := func(name string) inspect.Operator {
		return s.Operators[slices.IndexFunc(g.Operators, func(o dataflow.GraphOperator) bool { return o.Name == name })]
	}
	if in, fold := at("dataflow.Input"), at("keyedstream.FoldEarlyStop"); !s.Counted || in.Entered != 3 || fold.Entered != 3 || fold.Kept != 2 {
		t.Errorf("the input has %+v, the fold %+v", in, fold)
	}
	if l := s.Locations[0]; l.Records != 3 || l.Steps < 3 || l.Name != "server" || l.Ended || s.Ended {
		t.Errorf("the location has %+v", l)
	}
	want := []inspect.Output{{Operator: len(g.Operators) - 2, Port: "counts of votes", Location: "server"}, {Operator: len(g.Operators) - 1, Port: "log of votes", Location: "server", Given: 3, Unread: 3, Bound: 4}}
	if !slices.Equal(s.Outputs, want) {
		t.Errorf("outputs are %+v, want %+v", s.Outputs, want)
	}
}

// TestEnded checks flows that have ended, one of them with an error.
func TestEnded(t *testing.T) {
	app, ports := counting(t)
	go ports.log.Next(t.Context())
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := inspect.Take(app); !s.Ended || s.Error != "" {
		t.Errorf("a flow that was stopped is %+v", s)
	}
	healthy(t, app)
	flow := dataflow.New()
	in, all := dataflow.Input[int](dataflow.At[server](flow), "in")
	dataflow.Output(dataflow.Map(all, func(int) int { panic(errors.New("<no>")) }), "out")
	failed, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Send(t.Context(), 1) // returns why the flow has ended, or nil
	<-failed.Done()
	healthy(t, failed, inspect.Failed)
	if _, page := ask(t, inspect.Handler(failed, inspect.Options{}), "GET", "/"); !strings.Contains(page, "The flow has ended.") || !strings.Contains(page, "&lt;no&gt;") || strings.Contains(page, "<no>") {
		t.Errorf("the page of a flow that failed:\n%s", page)
	}
}

// TestKept checks a durable flow with partitions.
func TestKept(t *testing.T) {
	type votes struct{ dataflow.Cluster }
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	app, err := durable.Start(t.Context(), func(flow *dataflow.Flow) ports {
		in, all := keyedsingleton.Input[string, int](dataflow.At[votes](flow), "votes")
		return ports{in, keyedsingleton.Output(all, "kept")}
	}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 3})}, Name: "votes", Partitions: 3, Flow: dataflow.Options{Count: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range strings.Fields("a b c d e f g h i j") {
		if err := app.Ports.in.Put(t.Context(), k, i); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.out.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	s := inspect.Take(app)
	if len(s.Locations) != 1 || len(s.Partitions) != 3 || s.Operators[0].Entered != 10 || s.Outputs[0].Unread != 10 || len(s.Outputs) != 1 {
		t.Errorf("the snapshot is %+v", s)
	}
	if _, page := ask(t, inspect.Handler(app, inspect.Options{}), "GET", "/"); !strings.Contains(page, "<h2>Partitions</h2>") {
		t.Errorf("the page has no partitions:\n%s", page)
	}
	healthy(t, app)
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestJSON compares the JSON answers with golden files.
func TestJSON(t *testing.T) {
	app, ports := counting(t)
	if err := ports.in.Send(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	h := inspect.Handler(app, inspect.Options{Name: "ballots"})
	changing := regexp.MustCompile(`"(at|time)": "[^"]*"|"(bytes|steps)": \d+|\w+\.go:\d+`)
	for _, path := range []string{"graph", "status"} {
		resp, body := ask(t, h, "GET", "/v1/"+path)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" || !json.Valid([]byte(body)) {
			t.Errorf("%s: %v, %s", path, resp.Status, body)
		}
		body = changing.ReplaceAllStringFunc(body, func(s string) string { name, _, _ := strings.Cut(s, ":"); return name + ": …" })
		file := filepath.Join("testdata", path+".json")
		if *update {
			if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != body {
			t.Errorf("%s is another one, %v; fields are added and nothing else, then run the test with -update:\n%s", file, err, body)
		}
	}
}
