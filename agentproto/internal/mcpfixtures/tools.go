package main

import (
	"context"
	"encoding/base64"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// The suite defines the name and behavior of each tool. Jobs take longer than a call that is answered at
// once.

const jobTakes = 700 * time.Millisecond

// pause waits, unless the call is cancelled.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// pixel is a red pixel as PNG.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

func fixtures(base string) http.Handler {
	s := toolserver.New(toolserver.Options{Name: "fixtures", PublicURL: base})
	toolserver.Add(s, "greet", "Greets somebody.", func(_ context.Context, in struct {
		Name string `json:"name,omitempty"`
	}) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	toolserver.Add(s, "slow_compute", "Computes for a while.", func(ctx context.Context, in struct {
		Seconds float64 `json:"seconds,omitempty"`
		Label   string  `json:"label,omitempty"`
	}) (string, error) {
		err := pause(ctx, max(jobTakes, time.Duration(in.Seconds*float64(time.Second))))
		return "computed " + in.Label, err
	})
	toolserver.Add(s, "failing_job", "Fails after a while.", func(ctx context.Context, _ struct{}) (string, error) {
		return "", errors.Join(pause(ctx, jobTakes), errors.New("it did not work"))
	})
	toolserver.Add(s, "protocol_error_job", "Is lost after a while.", func(ctx context.Context, _ struct{}) (string, error) {
		if err := pause(ctx, jobTakes); err != nil {
			return "", err
		}
		return "", errors.New("lost")
	})
	toolserver.Add(s, "confirm_delete", "Deletes a file, if it may.", func(ctx context.Context, in struct {
		Filename string `json:"filename,omitempty"`
	}) (string, error) {
		if err := pause(ctx, jobTakes); err != nil {
			return "", err
		}
		i, err := toolserver.Choose(ctx, "Delete "+in.Filename+"?", []string{"Yes", "No"}, 1)
		if err != nil || i != 0 {
			return "kept", err
		}
		return "deleted " + in.Filename, nil
	})
	toolserver.Add(s, "multi_input", "Asks two questions.", func(ctx context.Context, _ struct{}) (string, error) {
		if err := pause(ctx, jobTakes); err != nil {
			return "", err
		}
		fields := []form.Field{{Name: "name", Kind: form.Text}, {Name: "confirm", Kind: form.Boolean}}
		_, err := toolserver.Ask(ctx, toolserver.Question{Form: form.Form{Questions: []form.Question{
			{Name: "one", Message: "One?", Fields: fields}, {Name: "two", Message: "Two?", Fields: fields},
		}}})
		return "both", err
	})
	toolserver.Add(s, asksFirst, "Asks for a name, and then works.", func(ctx context.Context, _ struct{}) (string, error) {
		name, err := text(ctx, "user_name", "What is your name?", "name")
		return "done for " + name, errors.Join(err, pause(ctx, jobTakes))
	})
	toolserver.Add(s, "test_simple_text", "Returns text.", func(context.Context, struct{}) (string, error) {
		return "This is a simple text response for testing.", nil
	})
	toolserver.Add(s, "test_error_handling", "Fails at once.", func(context.Context, struct{}) (string, error) {
		return "", errors.New("this tool intentionally returns an error for testing")
	})
	toolserver.Add(s, "test_tool_with_progress", "Says how far it is.", func(ctx context.Context, _ struct{}) (string, error) {
		for _, done := range []float64{0, 50, 100} {
			if err := toolserver.View(ctx, agentproto.ProgressView, agentproto.Progress{Progress: done, Total: 100}); err != nil {
				return "", err
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	toolserver.Add(s, "test_image_content", "Returns an image.", func(context.Context, struct{}) (*agentproto.ToolResult, error) {
		if _, err := base64.StdEncoding.DecodeString(pixel); err != nil {
			return nil, err
		}
		return &agentproto.ToolResult{Content: []agentproto.Content{{Type: agentproto.KindImage, Data: pixel, MediaType: "image/png"}}}, nil
	})
	addForms(s)
	asking := []string{"test_input_required_result_tampered_state", "test_streaming_elicitation"}
	for _, name := range asking {
		toolserver.Add(s, name, "Asks, and says so.", func(ctx context.Context, _ struct{}) (string, error) {
			_, err := toolserver.Choose(ctx, "Go on?", []string{"Yes", "No"}, 0)
			return "asked", err
		})
	}
	toolserver.Add(s, "test_logging_tool", "Does something that another server would log.", func(context.Context, struct{}) (string, error) {
		return "nothing was logged", nil
	})
	toolserver.Add(s, neverUsable, "Asks the client's model, which no tool of a runtime does.", func(context.Context, struct{}) (string, error) {
		return "", errors.New("this is not called")
	})
	if err := s.Replace(written); err != nil {
		log.Fatal(err)
	}
	return s
}

// neverUsable is a tool that requires a client capability that the suite does not declare.
const neverUsable = "test_missing_capability"

// written are tools whose schemas have keywords that schemas made from Go types do not have.
var written = []toolserver.Tool{
	{
		Name: "json_schema_2020_12_tool", Description: "Has a schema with many keywords.", Call: says("taken"),
		Schema: []byte(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
			"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
			"properties": {
				"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
				"contactMethod": {"enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}
			},
			"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
			"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
			"then": {"required": ["phone"]}, "else": {"required": ["email"]}
		}`),
	},
	{
		Name: "where", Description: "Says where it was asked to look.", Call: says("there"),
		Schema: []byte(`{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "required": ["region"]}`),
	},
}

// says returns a function that returns a text.
func says(text string) func(context.Context, []byte) (*agentproto.ToolResult, error) {
	return func(context.Context, []byte) (*agentproto.ToolResult, error) {
		return &agentproto.ToolResult{Text: &text}, nil
	}
}
