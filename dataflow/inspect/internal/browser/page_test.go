package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type server struct{ dataflow.Process }

// A counting is a flow that counts words. It stops when nobody reads the words.
type counting struct {
	app   *dataflow.App
	words *dataflow.InputPort[string]
	read  *dataflow.OutputPort[string]
}

func start(t *testing.T) (c counting) {
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true, Buffer: 4, OnBlocked: func(*dataflow.BlockedError) {}})
	in, words := dataflow.Input[string](dataflow.At[server](flow), "words <b>")
	counts := keyedstream.Count(dataflow.KeyBy(words, strings.ToLower))
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(counts, 2), "frequent")
	c.words, c.read = in, dataflow.Output(words, "all words")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	c.app = app
	return c
}

// send sends words and, if read is set, reads them.
func (c counting) send(t *testing.T, read bool, words ...string) {
	t.Helper()
	for _, w := range words {
		if err := c.words.Send(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if read {
			if _, err := c.read.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPage checks that the page draws the flow with current figures and shows names as text. The page
// must not violate its own policy or need sideways scrolling on a small screen.
func TestPage(t *testing.T) {
	c := start(t)
	b := open(t)
	b.visit(serve(t, c.app, inspect.Options{Name: "words <i>", Values: true}).URL)
	b.is(`document.getElementById("live").textContent === "live"`)
	if title := eval[string](b, "document.title"); title != "words <i> · Millrace" {
		t.Errorf("the title is %q", title)
	}
	if n := eval[int](b, `document.querySelectorAll("h1 i, text b").length`); n != 0 {
		t.Errorf("%d elements were made of names", n)
	}
	if n := eval[int](b, `document.querySelectorAll("svg g[data-of]").length`); n < 4 {
		t.Errorf("%d boxes are drawn", n)
	}
	c.send(t, true, "a", "b", "A")
	b.is(`[...document.querySelectorAll("svg .sub")].some(s => s.textContent.includes("3 in"))`)
	b.is(`document.querySelector('tr[data-operator="0"] td[data-f="entered"]').textContent === "3"`)
	b.click("svg a rect")
	b.is(`location.hash.startsWith("#op") && document.querySelector("tr:target") !== null`)
	b.shoot("page")
	for _, width := range []int64{1280, 360} {
		b.do(chromedp.EmulateViewport(width, 800))
		if !eval[bool](b, "document.documentElement.scrollWidth <= innerWidth") {
			t.Errorf("the page has to be moved sideways where it is %d wide", width)
		}
	}
	b.noProblems()
}

// TestKeyboard moves to a box with Tab and to its row with Enter.
func TestKeyboard(t *testing.T) {
	c := start(t)
	b := open(t)
	b.visit(serve(t, c.app, inspect.Options{}).URL)
	for range 30 {
		if eval[bool](b, `document.activeElement.closest("svg") !== null && document.activeElement.tagName === "a"`) {
			break
		}
		b.do(chromedp.KeyEvent("\t"))
	}
	b.do(chromedp.KeyEvent("\r"))
	b.is(`document.querySelector("tr:target") !== null`)
	b.noProblems()
}

// TestBlocked checks that the page reports and marks an output that nobody reads, without a reload,
// until the output is read.
func TestBlocked(t *testing.T) {
	c := start(t)
	b := open(t)
	b.visit(serve(t, c.app, inspect.Options{Name: "words"}).URL)
	b.is(`document.getElementById("live").textContent === "live"`)
	c.send(t, false, strings.Fields("one two three four five")...)
	b.is(`document.querySelector("#alerts .alert")?.textContent.includes("all words")`)
	b.is(`document.querySelectorAll("svg g.bad").length === 1`)
	b.is(`[...document.querySelectorAll("svg g.bad .sub")].some(s => s.textContent === "FULL")`)
	b.shoot("blocked")
	for range 5 {
		if _, err := c.read.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.is(`document.querySelectorAll("#alerts .alert, svg g.bad").length === 0`)
	b.noProblems()
}

// TestConnection checks that a page shows that the server does not answer, and continues when it does.
func TestConnection(t *testing.T) {
	c := start(t)
	h := inspect.Handler(c.app, inspect.Options{})
	var gone atomic.Bool
	s := httptestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler) // closes the connection
		}
		h.ServeHTTP(w, r)
	}))
	b := open(t)
	b.visit(s.URL)
	b.is(`document.getElementById("live").textContent === "live"`)
	gone.Store(true)
	b.is(`document.getElementById("live").textContent === "no answer"`)
	gone.Store(false)
	b.is(`document.getElementById("live").textContent === "live"`)
	b.noProblems("Failed to load resource")
}

// TestWithoutScripts checks that the page shows its tables and a key without scripts.
func TestWithoutScripts(t *testing.T) {
	c := start(t)
	c.send(t, true, "a")
	b := open(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	url := serve(t, c.app, inspect.Options{Values: true}).URL
	b.visit(url)
	body := b.text("body")
	for _, want := range []string{"Locations", "Outputs", "Operators", "keyedstream.Count", "all words", "as of "} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	b.visit(url + "keys?type=string&key=a")
	if body := b.text("body"); !strings.Contains(body, "keyedstream.Count") {
		t.Errorf("the page of a key is %s", body)
	}
	b.noProblems()
}

// TestHostileKey checks that a key with HTML that the user types is handled as a key.
func TestHostileKey(t *testing.T) {
	c := start(t)
	const hostile = `"><script>document.title = "taken over"</script><img src=x onerror=alert(1)>`
	c.send(t, true, hostile, "plain")
	b := open(t)
	base := serve(t, c.app, inspect.Options{Values: true}).URL
	b.visit(base + "keys")
	b.do(chromedp.SendKeys(`input[name="key"]`, hostile))
	b.click("button")
	b.is(`document.querySelectorAll("table")[0].innerText.includes("onerror=alert")`)
	if n := eval[int](b, `document.querySelectorAll("main script, main img").length`); n != 0 || eval[string](b, "document.title") == "taken over" {
		t.Errorf("%d elements were made of a key, and the title is %q", n, eval[string](b, "document.title"))
	}
	if was := eval[string](b, `document.querySelector('input[name="key"]').value`); was != hostile {
		t.Errorf("the form has %q", was)
	}
	b.shoot("key")
	b.visit(base + "keys?type=string&key=" + url.QueryEscape("nobody"))
	if body := b.text("main"); !strings.Contains(body, "No operator remembers this key") {
		t.Errorf("the page of a key that is not there is %s", body)
	}
	b.noProblems()
}

// TestPolicy checks that an injected script does not run and that the page loads nothing from other
// servers.
func TestPolicy(t *testing.T) {
	var asked atomic.Bool
	elsewhere := httptestServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	c := start(t)
	b := open(t)
	b.visit(serve(t, c.app, inspect.Options{}).URL)
	eval[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s); return true })()`)
	eval[bool](b, `(() => { const i = document.createElement("img"); i.src = `+quoted(elsewhere.URL)+`; document.body.append(i); return true })()`)
	eval[bool](b, `(() => { document.body.setAttribute("onclick", "window.ran = true"); document.body.click(); return true })()`)
	if eval[bool](b, "window.ran === true") {
		t.Error("the script ran")
	}
	eval[bool](b, `(() => { fetch(`+quoted(elsewhere.URL)+`).then(() => window.fetched = "an answer", () => window.fetched = "nothing"); return true })()`)
	b.is("window.fetched !== undefined")
	if got := eval[string](b, "window.fetched"); got != "nothing" || asked.Load() {
		t.Errorf("%s was loaded from elsewhere", got)
	}
	b.noProblems("Content Security Policy")
}

// TestLarge draws five hundred operators and pages through a million keys.
func TestLarge(t *testing.T) {
	flow := dataflow.New()
	in, numbers := dataflow.Input[int](dataflow.At[server](flow), "numbers")
	for i := range 100 {
		part := dataflow.Filter(numbers, func(n int) bool { return n%100 == i })
		counts := keyedstream.Count(dataflow.KeyBy(dataflow.Map(part, func(n int) int { return n }), func(n int) int { return n }))
		keyedsingleton.Output(keyedsingleton.ThresholdUniform(counts, 1000), fmt.Sprint("often ", i))
	}
	all := keyedstream.Count(dataflow.KeyBy(numbers, func(n int) int { return n }))
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(all, 1000), "often")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 1_000_000
	batch := make([]int, 1000)
	for from := 0; from < keys; from += len(batch) {
		for i := range batch {
			batch[i] = from + i
		}
		if _, err := in.SendBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	operators := app.Graph().Operators
	if len(operators) < 500 {
		t.Fatalf("the flow has %d operators", len(operators))
	}
	s := serve(t, app, inspect.Options{Name: "large", Values: true})
	b := open(t)
	b.visit(s.URL)
	b.is(`document.getElementById("live").textContent === "live"`)
	b.shoot("large")
	counted := len(operators) - 3 // the last Count
	for operators[counted].Name != "keyedstream.Count" {
		counted++
	}
	b.visit(fmt.Sprintf("%skeys?operator=%d&most=200", s.URL, counted))
	if body := b.text("main"); !strings.Contains(body, "next entries") {
		t.Errorf("the page of entries is %.1000s", body)
	}
	b.click("main p a")
	b.is(`location.search.includes("from=200") && document.querySelectorAll("table")[0].rows.length === 201`)
	b.visit(s.URL + "keys?type=int&key=999999")
	if rows := eval[int](b, `document.querySelectorAll("table")[0].rows.length`); rows < 2 {
		t.Errorf("a key has %d rows", rows)
	}
	b.noProblems()
}
