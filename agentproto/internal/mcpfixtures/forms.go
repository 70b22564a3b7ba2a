package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// asksFirst is the tool that asks its user before there is a task.
const asksFirst = "test_tool_with_task"

// ask asks one question, and returns the answer as JSON, or null if there is none.
func ask(ctx context.Context, q form.Question) (jsontext.Value, error) {
	a, err := toolserver.Ask(ctx, toolserver.Question{Form: form.Form{Questions: []form.Question{q}}})
	if v := a.Values[q.Name]; v != nil {
		return v, err
	}
	return jsontext.Value("null"), err
}

// text asks for a text.
func text(ctx context.Context, name, message, field string) (string, error) {
	filled, err := ask(ctx, form.Question{Name: name, Message: message, Fields: []form.Field{{Name: field, Kind: form.Text, Required: true}}})
	if err != nil {
		return "", err
	}
	var values map[string]string
	err = json.Unmarshal(filled, &values)
	return values[field], err
}

// addForms adds the tools whose forms the suite checks.
func addForms(s *toolserver.Server) {
	toolserver.Add(s, "test_input_required_result_elicitation", "Greets who says a name.", func(ctx context.Context, _ struct{}) (string, error) {
		name, err := text(ctx, "user_name", "What is your name?", "name")
		return "Hello, " + name + "!", err
	})
	toolserver.Add(s, "test_input_required_result_request_state", "Asks for a confirmation.", func(ctx context.Context, _ struct{}) (string, error) {
		_, err := ask(ctx, form.Question{Name: "confirm", Message: "Please confirm", Fields: []form.Field{{Name: "ok", Kind: form.Boolean, Required: true}}})
		return "state-ok", err
	})
	toolserver.Add(s, "test_input_required_result_multi_round", "Asks for a name and a colour.", func(ctx context.Context, _ struct{}) (string, error) {
		name, err := text(ctx, "step1", "Step 1: What is your name?", "name")
		if err != nil {
			return "", err
		}
		colour, err := text(ctx, "step2", "Step 2: What is your favourite colour?", "color")
		return name + " likes " + colour, err
	})
	toolserver.Add(s, "test_elicitation", "Asks who is there.", func(ctx context.Context, in struct {
		Message string `json:"message,omitempty"`
	}) (string, error) {
		return shown(ask(ctx, form.Question{Name: "who", Message: in.Message, Fields: []form.Field{
			{Name: "username", Kind: form.Text, Description: "User's response", Required: true},
			{Name: "email", Kind: form.Text, Description: "User's email address", Required: true},
		}}))
	})
	toolserver.Add(s, "test_elicitation_sep1034_defaults", "Asks with a default of each kind.", func(ctx context.Context, _ struct{}) (string, error) {
		return shown(ask(ctx, form.Question{Name: "defaults", Message: "Please look through the defaults", Fields: []form.Field{
			{Name: "name", Kind: form.Text, Default: jsontext.Value(`"John Doe"`)},
			{Name: "age", Kind: form.Integer, Default: jsontext.Value("30")},
			{Name: "score", Kind: form.Number, Default: jsontext.Value("95.5")},
			{Name: "status", Kind: form.Choice, Options: options("active", "", "inactive", "", "pending", ""), Default: jsontext.Value(`"active"`)},
			{Name: "verified", Kind: form.Boolean, Default: jsontext.Value("true")},
		}}))
	})
	toolserver.Add(s, "test_elicitation_sep1330_enums", "Asks for choices of each kind.", func(ctx context.Context, _ struct{}) (string, error) {
		plain := options("option1", "", "option2", "", "option3", "")
		return shown(ask(ctx, form.Question{Name: "enums", Message: "Please choose", Fields: []form.Field{
			{Name: "untitledSingle", Kind: form.Choice, Options: plain},
			{Name: "titledSingle", Kind: form.Choice, Options: options("value1", "First Option", "value2", "Second Option", "value3", "Third Option")},
			{Name: "legacyEnum", Kind: form.Choice, Options: options("opt1", "Option One", "opt2", "Option Two", "opt3", "Option Three"), EnumNames: true},
			{Name: "untitledMulti", Kind: form.Choices, Options: plain},
			{Name: "titledMulti", Kind: form.Choices, Options: options("value1", "First Choice", "value2", "Second Choice", "value3", "Third Choice")},
		}}))
	})
}

// options returns options from alternating values and titles.
func options(texts ...string) (all []form.Option) {
	for i := 0; i < len(texts); i += 2 {
		all = append(all, form.Option{Value: texts[i], Title: texts[i+1]})
	}
	return all
}

// shown returns an answer in the form that the suite expects.
func shown(filled jsontext.Value, err error) (string, error) {
	action := "accept"
	if filled.Kind() == 'n' {
		action = "decline"
	}
	return fmt.Sprintf("Elicitation completed: action=%s, content=%s", action, filled), err
}
