package agentinspect_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/agentproto/host"
)

var update = flag.Bool("update", false, "rewrite golden files")

// shapeOf returns the stable part of a JSON value: the names of fields and the types.
func shapeOf(x any) any {
	switch x := x.(type) {
	case map[string]any:
		fields := make(map[string]any)
		for name, value := range x {
			fields[name] = shapeOf(value)
		}
		return fields
	case []any:
		var element any
		for _, e := range x {
			element = union(element, shapeOf(e))
		}
		return []any{element}
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	}
	return nil
}

// union returns a shape with the fields of both arguments.
func union(a, b any) any {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		if a == nil {
			return b
		}
		return a
	}
	for name, value := range y {
		x[name] = union(x[name], value)
	}
	return x
}

// TestShapes compares the JSON with a golden file that lists every field. Programs read this JSON: fields may be
// added, but not removed or changed.
func TestShapes(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		w.call("t", "done", "greet")
		w.call("t", "open", "wait")
		w.call("t", "ask", "ask")
		w.call("t", "login", "login")
		th, err := w.rt.OpenSession(t.Context(), host.SessionRequest{ID: "s", UserID: "u1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := th.Say(t.Context(), "call greet"); err != nil {
			t.Fatal(err)
		}
		w.said <- "done"
		var prompts promptsShape
		w.json("agents/v1/prompts", &prompts, func() bool { return len(prompts.Prompts) == 2 })
		var thread threadShape
		w.json("agents/v1/thread?id=s", &thread, func() bool { return thread.Messages == 5 && !thread.Asking })
		var done oneCall
		w.json("agents/v1/call?thread=t&id=done", &done, func() bool { return done.Result != nil })
		child, err := th.OpenChild(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		w.json("agents/v1/thread?id="+child.ID(), &thread, func() bool { return thread.Messages == 1 })
		shapes := make(map[string]any)
		for _, path := range []string{"status", "threads", "thread?id=s", "messages?id=s", "calls", "call?thread=t&id=done", "call?thread=t&id=login", "prompts"} {
			status, body := w.get("agents/v1/" + path)
			var x any
			if err := json.Unmarshal([]byte(body), &x); err != nil || status != http.StatusOK {
				t.Fatalf("%s is %d: %s", path, status, body)
			}
			shapes[path] = shapeOf(x)
		}
		got, err := json.MarshalIndent(shapes, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "shapes.json")
		if *update {
			if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != string(want) {
			t.Errorf("the shapes are now:\n%s", got)
		}
	})
}
