package inspect_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedsingleton"
)

// keysOf is the JSON of states.
type keysOf struct {
	Found, Entries []struct {
		Operator, State, Partition int
		Kind, Key, Value           string
	}
	Next  *uint32
	Error string
}

// look requests JSON and checks the status.
func look(t *testing.T, h http.Handler, path string, want int) (k keysOf) {
	t.Helper()
	r, body := ask(t, h, "GET", path)
	if r.StatusCode != want {
		t.Fatalf("%s is answered %d %s, want %d", path, r.StatusCode, body, want)
	}
	if err := json.Unmarshal([]byte(body), &k); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
	if (k.Error != "") != (want != 200) {
		t.Errorf("%s has the error %q", path, k.Error)
	}
	return k
}

// TestNoValues checks that keys and values are not shown unless Options.Values is set.
func TestNoValues(t *testing.T) {
	app, ports := counting(t)
	if err := ports.in.Send(t.Context(), "Secret"); err != nil {
		t.Fatal(err)
	}
	h := inspect.Handler(app, inspect.Options{})
	for _, path := range []string{"/v1/keys?type=string&key=secret", "/v1/entries?operator=3", "/keys", "/keys?type=string&key=secret"} {
		if r, body := ask(t, h, "GET", path); r.StatusCode != 403 || strings.Contains(strings.ToLower(body), "secret") {
			t.Errorf("%s is answered %d %s", path, r.StatusCode, body)
		}
	}
	for _, path := range []string{"/", "/v1/status", "/v1/graph"} {
		if _, body := ask(t, h, "GET", path); strings.Contains(strings.ToLower(body), "secret") || strings.Contains(body, `href="keys"`) {
			t.Errorf("%s has a key, or leads to keys", path)
		}
	}
}

func TestKeys(t *testing.T) {
	app, ports := counting(t)
	for _, vote := range []string{"Ada", "ada", "Bob"} {
		if err := ports.in.Send(t.Context(), vote); err != nil {
			t.Fatal(err)
		}
	}
	h := inspect.Handler(app, inspect.Options{Values: true})
	found := look(t, h, "/v1/keys?type=string&key=ada", 200).Found
	if len(found) != 1 || found[0].Key != "ada" || found[0].Value != "{acc:2 done:false}" || found[0].Partition != -1 || !strings.HasPrefix(found[0].Kind, "table(string,") {
		t.Errorf("of ada there is %+v", found)
	}
	if again := look(t, h, "/v1/keys?type=string&key="+url.QueryEscape(`"ada"`), 200).Found; len(again) != 1 {
		t.Errorf("as JSON there is %+v", again)
	}
	if none := look(t, h, "/v1/keys?type=string&key=eve", 200); none.Found == nil || len(none.Found) > 0 {
		t.Errorf("of eve there is %+v", none.Found)
	}
	if _, page := ask(t, h, "GET", "/keys?type=string&key=eve"); !strings.Contains(page, "No operator remembers this key") || !strings.Contains(page, `without this one: <a href="./#op3">`) {
		t.Errorf("the page of eve is\n%s", page)
	}
	if _, page := ask(t, h, "GET", "/keys?type=string&key=ada"); !strings.Contains(page, "<code>ada</code><td><code>{acc:2 done:false}</code>") {
		t.Errorf("the page of ada is\n%s", page)
	}
	at := found[0].Operator
	first := look(t, h, fmt.Sprintf("/v1/entries?operator=%d&most=1", at), 200)
	if len(first.Entries) != 1 || first.Next == nil {
		t.Fatalf("the first page is %+v", first)
	}
	second := look(t, h, fmt.Sprintf("/v1/entries?operator=%d&most=1&from=%d", at, *first.Next), 200)
	if len(second.Entries) != 1 || second.Next != nil || second.Entries[0].Key == first.Entries[0].Key {
		t.Errorf("the second page is %+v, behind %+v", second, first)
	}
	if _, page := ask(t, h, "GET", fmt.Sprintf("/keys?operator=%d&most=1", at)); !strings.Contains(page, fmt.Sprintf(`href="keys?operator=%d&amp;state=0&amp;most=1&amp;from=%d"`, at, *first.Next)) {
		t.Errorf("the page does not lead on:\n%s", page)
	}
	for path, want := range map[string]int{
		"/v1/keys":                             404,
		"/v1/keys?type=int&key=1":              404,
		"/v1/keys?type=string&key=a&most=3":    400,
		"/v1/entries":                          400,
		"/v1/entries?operator=-1":              400,
		"/v1/entries?operator=99":              400,
		"/v1/entries?operator=0":               404,
		"/v1/entries?operator=3&most=201":      400,
		"/v1/entries?operator=3&state=9":       404,
		"/v1/entries?operator=3&from=99999999": 200,
		"/keys?type=int&key=1":                 404,
		"/keys?operator=x":                     400,
		"/keys?operator=0":                     404,
	} {
		if r, body := ask(t, h, "GET", path); r.StatusCode != want {
			t.Errorf("%s is answered %d, want %d: %s", path, r.StatusCode, want, body)
		}
	}
}

// TestHostileKeys checks that a key is shown as text, whatever it contains.
func TestHostileKeys(t *testing.T) {
	app, ports := counting(t)
	h := inspect.Handler(app, inspect.Options{Values: true})
	for _, key := range []string{"</code><script>alert(1)</script>", "\u202etxt", "\xff", strings.Repeat("a", 10<<20)} {
		if err := ports.in.Send(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		select {
		case <-app.Done():
			t.Fatal(app.Err())
		default:
		}
		if _, err := ports.log.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, page := ask(t, h, "GET", "/keys?operator=3")
	if strings.Contains(page, "<script") || strings.Contains(page, "\u202e") || len(page) > 1<<20 || !strings.Contains(page, "&lt;script&gt;") {
		t.Errorf("the page has %d bytes: %.4000s", len(page), page)
	}
	for _, key := range []string{"<script>alert(1)</script>", "\"><script>"} {
		if _, page := ask(t, h, "GET", "/keys?type=string&key="+url.QueryEscape(key)); strings.Contains(page, "<script") {
			t.Errorf("the page of %q is %s", key, page)
		}
	}
}

// TestKeysOfPartitions checks that the keys of a durable flow are listed partition by
// partition.
func TestKeysOfPartitions(t *testing.T) {
	type people struct{ dataflow.Cluster }
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) ports {
		in, paid := keyedsingleton.Input[string, int](dataflow.At[people](f), "paid")
		return ports{in, keyedsingleton.Output(paid, "kept")}
	}, durable.Options{Name: "t", Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 3})}, Partitions: 3, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", i), i); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.out.Await(t.Context(), fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	h := inspect.Handler(app, inspect.Options{Values: true})
	seen := make(map[string]bool)
	for p := range 3 {
		for _, e := range look(t, h, fmt.Sprintf("/v1/entries?operator=1&partition=%d", p), 200).Entries {
			if e.Partition != p {
				t.Errorf("an entry of partition %d is %+v", p, e)
			}
			seen[e.Key] = true
		}
	}
	if len(seen) != 30 {
		t.Errorf("%d keys are seen", len(seen))
	}
	if _, page := ask(t, h, "GET", "/keys?operator=1"); !strings.Contains(page, `href="keys?operator=1&amp;state=0&amp;most=50&amp;partition=1"`) {
		t.Errorf("the page of partition 0 does not lead to partition 1:\n%s", page)
	}
	if found := look(t, h, "/v1/keys?type=string&key=k7", 200).Found; len(found) == 0 || found[0].Partition < 0 {
		t.Errorf("of k7 there is %+v", found)
	}
	look(t, h, "/v1/entries?operator=1&partition=7", 404)
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A seat is a key with fields.
type seat struct{ Row, Number int }

// TestKeyTexts checks that a key that cannot be decoded is refused with the reason.
func TestKeyTexts(t *testing.T) {
	flow := dataflow.New()
	in, taken := keyedsingleton.Input[seat, string](dataflow.At[server](flow), "taken")
	keyedsingleton.Output(taken, "kept")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Put(t.Context(), seat{1, 2}, "Ada"); err != nil {
		t.Fatal(err)
	}
	h := inspect.Handler(app, inspect.Options{Values: true})
	at := func(text string) string {
		return "/v1/keys?type=inspect_test.seat&key=" + url.QueryEscape(text)
	}
	if k := look(t, h, at(` {"Row": 1, "Number": 2} `), 200); len(k.Found) != 2 || k.Found[1].Value != "Ada" || k.Found[0].Key != "{Row:1 Number:2}" {
		t.Errorf("there is %+v", k.Found)
	}
	for text, says := range map[string]string{
		"":                     "EOF",
		`{"Row": "x"}`:         "cannot unmarshal string",
		`{"Rows": 1}`:          `unknown field "Rows"`,
		`{} {}`:                "there is more behind it",
		`{"Row": 1`:            "unexpected EOF",
		strings.Repeat("[", 9): "unexpected EOF",
	} {
		if k := look(t, h, at(text), 400); !strings.Contains(k.Error, says) {
			t.Errorf("%q is answered %q, want %q", text, k.Error, says)
		}
	}
	if k := look(t, h, "/v1/keys?type=inspect_test.seats&key=1", 404); !strings.Contains(k.Error, "[inspect_test.seat]") {
		t.Errorf("another type is answered %q", k.Error)
	}
}
