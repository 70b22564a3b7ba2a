package browser

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A till is a durable flow that sums payments. It panics on a division by zero.
type till struct {
	paid  *dataflow.KeyedInputPort[string, int]
	all   *dataflow.OutputPort[int]
	parts *dataflow.EntryInputPort[string, int]
}

func startTill(t *testing.T) *durable.App[till] {
	t.Helper()
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) till {
		in, paid := keyedstream.Input[string, int](dataflow.At[server](f), "paid")
		dataflow.Named("sums", keyedstream.Sum(paid))
		parts, divided := keyedsingleton.Input[string, int](dataflow.At[server](f), "parts")
		keyedsingleton.Output(keyedsingleton.Map(divided, func(n int) int { return 100 / n }), "shares")
		return till{in, dataflow.Output(keyedstream.Values(paid), "payments"), parts}
	}, durable.Options{Name: "till", Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, KeepFor: durable.Forever, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return app
}

// pay makes payments, each in its own step, and returns the steps.
func pay(t *testing.T, app *durable.App[till], keys ...string) (steps []uint64) {
	t.Helper()
	for i, key := range keys {
		if err := app.Ports.paid.Send(t.Context(), key, i+1); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.all.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, app.Status()[0].Step)
	}
	return steps
}

// TestScrub moves through the steps with links and with the form, and checks the state at each step. The page has no
// scripts.
func TestScrub(t *testing.T) {
	app := startTill(t)
	steps := pay(t, app, "ada", "bob", "ada", "ada")
	b := open(t)
	url := serve(t, app, inspect.Options{Name: "till", Values: true}).URL
	b.visit(url)
	b.click(`nav a[href$="history"]`)
	b.is(`document.querySelector("nav.steps strong") !== null && document.scripts.length === 0`)
	b.do(chromedp.SendKeys(`input[name="key"]`, "ada"))
	b.do(chromedp.SetValue(`input[name="step"]`, fmt.Sprint(steps[3])))
	b.click("main form button")
	shows := func(step uint64, value string) {
		t.Helper()
		b.is(fmt.Sprintf(`document.readyState === "complete" && location.search.includes("key=ada") && document.querySelector("nav.steps strong")?.textContent === "step %d"`, step))
		if body := b.text("main"); value != "" && !strings.Contains(body, value) {
			t.Errorf("the page of step %d has no %s:\n%s", step, value, body)
		}
	}
	shows(steps[3], "8")
	if before, after := b.text(".diff del"), b.text(".diff ins"); before != "4" || after != "8" {
		t.Errorf("ada became %q from %q", after, before)
	}
	b.click("ul.steps li:nth-child(2) a") // one of the steps that changed the key
	shows(steps[2], "")
	if before, after := b.text(".diff del"), b.text(".diff ins"); before != "1" || after != "4" {
		t.Errorf("ada became %q from %q", after, before)
	}
	for back := true; back; {
		at := b.text("nav.steps strong")
		b.click(`a[rel="prev"]`)
		b.is(fmt.Sprintf(`document.readyState === "complete" && document.querySelector("nav.steps strong")?.textContent !== %q`, at))
		back = at != fmt.Sprint("step ", steps[1])
	}
	b.click(`a[rel="next"]`)
	shows(steps[1], "bob")
	b.shoot("history")
	for _, width := range []int64{1280, 360} {
		b.do(chromedp.EmulateViewport(width, 800))
		if !eval[bool](b, "document.documentElement.scrollWidth <= innerWidth") {
			t.Errorf("the page has to be moved sideways where it is %d wide", width)
		}
	}
	b.noProblems()
}

// TestScrubByKeyboard goes to the next step with Tab and Enter.
func TestScrubByKeyboard(t *testing.T) {
	app := startTill(t)
	steps := pay(t, app, "ada", "bob")
	b := open(t)
	b.visit(fmt.Sprintf("%shistory?step=%d", serve(t, app, inspect.Options{Values: true}).URL, steps[0]))
	for range 30 {
		if eval[bool](b, `document.activeElement.rel === "next"`) {
			break
		}
		b.do(chromedp.KeyEvent("\t"))
	}
	b.do(chromedp.KeyEvent("\r"))
	b.is(fmt.Sprintf(`document.querySelector("nav.steps strong")?.textContent !== "step %d"`, steps[0]))
	b.noProblems()
}

// TestHostileHistory checks that a key with HTML is shown as text in the history.
func TestHostileHistory(t *testing.T) {
	app := startTill(t)
	const hostile = `"><script>document.title = "taken over"</script><img src=x onerror=alert(1)>`
	pay(t, app, "plain", hostile)
	b := open(t)
	b.visit(serve(t, app, inspect.Options{Values: true}).URL + "history")
	b.do(chromedp.SendKeys(`input[name="key"]`, hostile))
	b.click("main form button")
	// The page before shows the key, too.
	b.is(`new URLSearchParams(location.search).has("key") && document.readyState === "complete"`)
	b.is(`document.querySelector("main").innerText.includes("onerror=alert") && document.querySelectorAll("ul.steps li").length > 0`)
	if n := eval[int](b, `document.querySelectorAll("main script, main img").length`); n != 0 || eval[string](b, "document.title") == "taken over" {
		t.Errorf("%d elements were made of a key, and the title is %q", n, eval[string](b, "document.title"))
	}
	if was := eval[string](b, `document.querySelector('input[name="key"]').value`); was != hostile {
		t.Errorf("the form has %q", was)
	}
	b.noProblems()
}

// TestSkip skips a parked record with a button and checks that the page no longer shows it.
func TestSkip(t *testing.T) {
	app := startTill(t)
	if err := app.Ports.parts.Put(t.Context(), "nobody", 0); err == nil {
		t.Fatal("a division by zero was handled")
	}
	b := open(t)
	url := serve(t, app, inspect.Options{Name: "till", Values: true, Token: "right"}).URL
	b.visit(strings.Replace(url, "://", "://anybody:right@", 1) + "members")
	if body := b.text("main"); !strings.Contains(body, "divide by zero") || !strings.Contains(body, "this process") {
		t.Errorf("the page is %s", body)
	}
	b.shoot("members")
	b.click(`button[value="retry"]`)
	b.is(`document.querySelector("[role=alert]")?.innerText.includes("still cannot")`)
	b.click(`button[value="skip"]`)
	b.is(`document.querySelectorAll("form").length === 0 && document.querySelector("main").innerText.includes("Nothing.")`)
	letters, err := app.Quarantine(t.Context())
	if err != nil || len(letters) != 0 {
		t.Errorf("parked are %+v, %v", letters, err)
	}
	b.noProblems("409")
}
