package inspect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/historycmd"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// till holds the ports of a flow that sums payments by key.
type till struct {
	paid *dataflow.KeyedInputPort[string, int]
	out  *dataflow.OutputPort[int]
}

// tillFlow includes a slice that runs in each step that takes a payment.
func tillFlow(f *dataflow.Flow) till {
	in, paid := keyedstream.Input[string, int](dataflow.At[server](f), "paid")
	dataflow.Named("sums", keyedstream.Sum(paid))
	batch := slice.Batch(slice.At(dataflow.At[server](f)), dataflow.WeakenOrder(keyedstream.Values(paid)), "how many come together is not looked at")
	return till{in, dataflow.Output(slice.Emit(batch), "payments")}
}

// A tillModel computes the sums after each step without a flow.
type tillModel struct {
	steps []uint64
	keys  []string // the key paid in each step
	sums  []map[string]int
}

func startTill(t *testing.T, log journal.Log, opts durable.Options) *durable.App[till] {
	t.Helper()
	opts.Name, opts.Log, opts.Logger = "till", journal.Opened{Log: log}, slog.New(slog.DiscardHandler)
	app, err := durable.Start(t.Context(), tillFlow, opts)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// pay makes one payment per key, each in its own step.
func (m *tillModel) pay(t *testing.T, app *durable.App[till], keys ...string) {
	t.Helper()
	for _, key := range keys {
		sums := map[string]int{}
		if n := len(m.sums); n > 0 {
			for k, v := range m.sums[n-1] {
				sums[k] = v
			}
		}
		amount := len(m.steps) + 1
		if err := app.Ports.paid.Send(t.Context(), key, amount); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.out.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		sums[key] += amount
		m.steps, m.keys, m.sums = append(m.steps, stepOf(app)), append(m.keys, key), append(m.sums, sums)
	}
}

// stepOf returns the last step. In a bubble this is the step of the last payment: reads of an output are reported only when
// time advances.
func stepOf(app *durable.App[till]) uint64 {
	for {
		if s := app.Status()[0]; !s.Stale {
			return s.Step
		}
	}
}

// many returns n key names, repeating after the given number of keys.
func many(n, keys int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("k", i%keys))
	}
	return all
}

// pastOf decodes the JSON answers about a history.
type pastOf struct {
	N, Last, First, Count, Next uint64
	Made, Complete              bool
	Steps                       []struct{ N uint64 }
	Took                        []struct {
		Port    string
		Count   int
		Records []struct{ Key, Value string }
	}
	Cut          []struct{ Runs uint64 }
	Gave         []string
	Found, State []struct {
		Key, Value string
		Kept       int
		Entries    []struct{ Key, Value string }
	}
	Diff struct {
		From, To uint64
		Changes  []struct{ Before, After *struct{ Key, Value string } }
	}
	Changes []struct {
		Step    uint64
		Entries []struct{ Value string }
	}
	Error string
}

func lookBack(t *testing.T, h http.Handler, path string, want int) (p pastOf) {
	t.Helper()
	r, body := ask(t, h, "GET", path)
	if r.StatusCode != want {
		t.Fatalf("%s is answered %d %s, want %d", path, r.StatusCode, body, want)
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
	if (p.Error != "") != (want != 200) {
		t.Errorf("%s has the error %q", path, p.Error)
	}
	return p
}

// TestHistory compares the history of a running flow with a tillModel: the state of a key after steps in any order, what
// each step took and changed, and which steps changed a key.
func TestHistory(t *testing.T) { synctest.Test(t, testHistory) }

func testHistory(t *testing.T) {
	app := startTill(t, journal.NewMemory(journal.MemoryOptions{}), durable.Options{KeepFor: durable.Forever, SnapshotBytes: 3000})
	var model tillModel
	model.pay(t, app, many(120, 5)...)
	h := inspect.Handler(app, inspect.Options{Name: "till", Values: true})
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		i := r.IntN(len(model.steps))
		step, key := model.steps[i], model.keys[i]
		p := lookBack(t, h, fmt.Sprintf("/v1/history/%d/state?type=string&key=%s&diff=%d", step, key, step-1), 200)
		want := fmt.Sprint(model.sums[i][key])
		if p.N != step || len(p.Found) != 1 || p.Found[0].Value != want {
			t.Fatalf("after step %d there is %+v of %s, want %s", step, p.Found, key, want)
		}
		if len(p.Took) != 1 || p.Took[0].Port != "paid" || p.Took[0].Records[0].Key != key || p.Took[0].Records[0].Value != fmt.Sprint(i+1) || len(p.Cut) != 1 || p.Cut[0].Runs != 1 || len(p.Gave) != 2 {
			t.Fatalf("step %d took %+v, cut %+v and gave %q", step, p.Took, p.Cut, p.Gave)
		}
		before, there := 0, false
		if i > 0 {
			before, there = model.sums[i-1][key], model.sums[i-1][key] > 0
		}
		c := p.Diff.Changes
		if len(c) != 1 || c[0].After.Value != want || (c[0].Before != nil) != there || there && c[0].Before.Value != fmt.Sprint(before) {
			t.Fatalf("step %d changed %s from %d to %+v", step, key, before, c)
		}
	}
	changes := lookBack(t, h, "/v1/history/changes?type=string&key=k3", 200)
	var steps []uint64
	for i, key := range model.keys {
		if key == "k3" {
			steps = append(steps, model.steps[i])
			if n := len(steps); n <= len(changes.Changes) && changes.Changes[n-1].Entries[0].Value != fmt.Sprint(model.sums[i]["k3"]) {
				t.Errorf("change %d of k3 is %+v", n, changes.Changes[n-1])
			}
		}
	}
	if !changes.Complete || len(changes.Changes) != len(steps) {
		t.Errorf("k3 was changed by %+v, want %v", changes, steps)
	}
	all := lookBack(t, h, "/v1/history?most=10", 200)
	if len(all.Steps) != 10 || all.Steps[0].N != all.First || all.Next == 0 || all.Last < model.steps[119] {
		t.Errorf("the first steps are %+v", all)
	}
	if more := lookBack(t, h, fmt.Sprintf("/v1/history?most=10&from=%d", all.Next), 200); len(more.Steps) != 10 || more.Steps[0].N != all.Next {
		t.Errorf("those behind them are %+v", more.Steps)
	}
	sums := lookBack(t, h, fmt.Sprintf("/v1/history/%d/state?operator=1", model.steps[9]), 200).State
	if len(sums) == 0 || sums[0].Kept != 5 || len(sums[0].Entries) != 5 {
		t.Errorf("the operator remembered %+v", sums)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := lookBack(t, h, "/v1/history", 503); p.Error == "" {
		t.Error("a flow that has ended has no error")
	}
}

// TestHistoryPage checks that the page of a step shows the data of the JSON, links to the steps around it, and stays small.
func TestHistoryPage(t *testing.T) { synctest.Test(t, testHistoryPage) }

func testHistoryPage(t *testing.T) {
	app := startTill(t, journal.NewMemory(journal.MemoryOptions{}), durable.Options{KeepFor: durable.Forever})
	var model tillModel
	hostile := `"><script>alert(1)</script>` + "\u202e" + strings.Repeat("<&>", 2000)
	model.pay(t, app, "a", "b", "a", hostile)
	for i := range 150 {
		model.pay(t, app, fmt.Sprint(i, hostile))
	}
	h := inspect.Handler(app, inspect.Options{Name: "till", Values: true})
	page := func(query string, status int) string {
		t.Helper()
		r, body := ask(t, h, "GET", "/history"+query)
		if r.StatusCode != status || len(body) > 150_000 || strings.Contains(body, "<script") || strings.Count(body, "\u202e") > strings.Count(query, "%E2%80%AE") /* what was typed stays in its field */ || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Fatalf("%s is answered %d with %d bytes: %.4000s", query, r.StatusCode, len(body), body)
		}
		return body
	}
	third := page(fmt.Sprintf("?step=%d&type=string&key=a", model.steps[2]), 200)
	for _, want := range []string{
		`<a rel="prev" href="history?key=a&amp;partition=0&amp;step=`, `rel="next"`, "<code>a: 3</code>", `<del>1</del>`, `<ins>4</ins>`,
		fmt.Sprintf(`step=%d&amp;type=string">%d</a>`, model.steps[0], model.steps[0]), `aria-current="true"`, "v1/history/export?partition=0", "past_test.go:",
	} {
		if !strings.Contains(third, want) {
			t.Errorf("the page of the third step has no %q:\n%s", want, third)
		}
	}
	page("", 200)
	page(fmt.Sprintf("?step=%d&before=%d&operator=1", model.steps[153], model.steps[1]), 200)
	page("?type=string&key="+url.QueryEscape(hostile), 200)
	page("?step=99999999", 404)
	page("?partition=7", 404)
	page("?step=x", 400)
	page("?before=x", 400)
	page("?type=int&key=1", 404)
	page("?type="+url.QueryEscape(hostile)+"&key=1", 404)
	page("?operator=99", 400)
	if front, _ := ask(t, h, "GET", "/"); front.StatusCode != 200 {
		t.Error(front.Status)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestHistoryMisuse checks the status codes of wrong requests, and that values stay hidden without Options.Values.
func TestHistoryMisuse(t *testing.T) { synctest.Test(t, testHistoryMisuse) }

func testHistoryMisuse(t *testing.T) {
	app := startTill(t, journal.NewMemory(journal.MemoryOptions{}), durable.Options{KeepFor: durable.Forever})
	var model tillModel
	model.pay(t, app, "Secret", "b")
	h := inspect.Handler(app, inspect.Options{Values: true})
	for path, want := range map[string]int{
		"/v1/history?partition=1": 404, "/v1/history?partition=-1": 400, "/v1/history?partition=x": 400, "/v1/history?most=201": 400, "/v1/history?form=1": 400,
		"/v1/history?from=99999": 200, "/v1/history/x/state": 400, "/v1/history/99999999/state": 404, "/v1/history/99999999999999999999/state": 400,
		"/v1/history/0/state?partition=3": 404, "/v1/history/0/state?operator=99": 400, "/v1/history/0/state?diff=99999": 404, "/v1/history/0/state?type=int&key=1": 404,
		"/v1/history/changes": 400, "/v1/history/changes?type=string&key=a&to=99999": 404, "/v1/history/changes?type=string&key=a&partition=4": 404,
		"/v1/history/export?as=c": 400, "/v1/history/export?to=99999": 404, "/v1/history/export?partition=2": 404, "/v1/history/0/state": 200, "/v1/members?x=1": 400,
	} {
		if r, body := ask(t, h, "GET", path); r.StatusCode != want {
			t.Errorf("%s is answered %d, want %d: %s", path, r.StatusCode, want, body)
		}
	}
	hidden := inspect.Handler(app, inspect.Options{})
	for path, want := range map[string]int{
		"/v1/history": 200, "/v1/history/0/state": 200, "/history": 200, "/history?step=1": 200, "/members": 200, "/v1/members": 200,
		"/v1/history/0/state?type=string&key=Secret": 403, "/v1/history/0/state?operator=1": 403, "/v1/history/0/state?diff=1": 403,
		"/v1/history/changes?type=string&key=Secret": 403, "/v1/history/export": 403, "/v1/history/export?as=go": 403, "/history?type=string&key=Secret": 403, "/history?operator=1": 403,
	} {
		r, body := ask(t, hidden, "GET", path)
		if r.StatusCode != want || strings.Contains(strings.ReplaceAll(body, `value="Secret"`, ""), "Secret") {
			t.Errorf("%s is answered %d, want %d: %s", path, r.StatusCode, want, body)
		}
	}
	memory, _ := counting(t)
	inMemory := inspect.Handler(memory, inspect.Options{Values: true, Token: "t"})
	for _, path := range []string{"/history", "/v1/history", "/members", "/v1/members"} {
		if r, _ := ask(t, inMemory, "GET", path, "Authorization", "Bearer t"); r.StatusCode != 404 {
			t.Errorf("%s of a flow in memory is answered %d", path, r.StatusCode)
		}
	}
	if _, body := ask(t, inMemory, "GET", "/", "Authorization", "Bearer t"); strings.Contains(body, `href="history"`) || strings.Contains(body, `href="members"`) {
		t.Error("the page of a flow in memory leads to a history")
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestHistoryExport checks that the page offers the same files for download that the command writes.
func TestHistoryExport(t *testing.T) { synctest.Test(t, testHistoryExport) }

func testHistoryExport(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := startTill(t, log, durable.Options{KeepFor: durable.Forever})
	var model tillModel
	model.pay(t, app, many(20, 3)...)
	h := inspect.Handler(app, inspect.Options{Values: true})
	want := make(map[string]string)
	for _, as := range []string{"", "go"} {
		r, body := ask(t, h, "GET", fmt.Sprintf("/v1/history/export?to=%d&as=%s", model.steps[11], as))
		if r.StatusCode != 200 {
			t.Fatalf("export is answered %d %s", r.StatusCode, body)
		}
		want[as] = body
		if name := r.Header.Get("Content-Disposition"); !strings.Contains(name, fmt.Sprintf(`filename="partition0_step%d`, model.steps[11])) {
			t.Errorf("the file is called %s", name)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := durable.Options{Name: "till", Log: journal.Opened{Log: log.Reopen()}, Logger: slog.New(slog.DiscardHandler)}
	for as, command := range map[string]string{"": "export", "go": "test"} {
		file := filepath.Join(t.TempDir(), "file")
		if err := historycmd.Of("till log", tillFlow, again).Run(t.Context(), []string{command, file, "--to", fmt.Sprint(model.steps[11])}); err != nil {
			t.Fatal(err)
		}
		again.Log = journal.Opened{Log: log.Reopen()}
		is, err := os.ReadFile(file)
		if err != nil || string(is) != want[as] {
			t.Errorf("%s writes %d bytes, %v, and the page %d", command, len(is), err, len(want[as]))
		}
	}
	if recording, err := recordings.Read(bytes.NewReader([]byte(want[""]))); err != nil || recording.Steps() < 12 {
		t.Errorf("the recording: %v", err)
	}
	for _, line := range []string{"package inspect_test\n", "tillFlow(s.Flow())\n", fmt.Sprintf(`"testdata/partition0_step%d.mrh"`, model.steps[11])} {
		if !strings.Contains(want["go"], line) {
			t.Errorf("the test has no %s:\n%s", line, want["go"])
		}
	}
}

// TestHistoryJSON compares the answers with golden files.
func TestHistoryJSON(t *testing.T) { synctest.Test(t, testHistoryJSON) }

func testHistoryJSON(t *testing.T) {
	app := startTill(t, journal.NewMemory(journal.MemoryOptions{}), durable.Options{KeepFor: durable.Forever})
	var model tillModel
	model.pay(t, app, "a", "b", "a")
	h := inspect.Handler(app, inspect.Options{Values: true})
	changing := regexp.MustCompile(`"(at|committed|saved)": "[^"]*"|"(bytes|n|next|first|last|step|from|to|taken|count|waiting_seconds)": [\d.]+|\w+\.go:\d+`)
	for name, path := range map[string]string{
		"history": "?most=2", "moment": fmt.Sprintf("/%d/state?type=string&key=a&operator=1&diff=%d", model.steps[2], model.steps[1]),
		"changes": "/changes?type=string&key=a", "members": "",
	} {
		at := "/v1/history" + path
		if name == "members" {
			at = "/v1/members"
		}
		resp, body := ask(t, h, "GET", at)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v, %s", name, resp.Status, body)
		}
		golden(t, name, changing.ReplaceAllStringFunc(body, func(s string) string { name, _, _ := strings.Cut(s, ":"); return name + ": …" }))
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// golden compares an answer with a golden file.
func golden(t *testing.T, name, body string) {
	t.Helper()
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != body {
		t.Errorf("%s is another one, %v; fields are added and nothing else, then run the test with -update:\n%s", file, err, body)
	}
}
