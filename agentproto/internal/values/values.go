// Package values converts the arguments of a call to the arguments of a Go function, and the
// function's return value to a result.
package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/millrace/millrace/agentproto"
)

// SchemaOf returns the JSON schema of the arguments In, which must be a struct or a map.
func SchemaOf[In any]() (jsontext.Value, error) {
	typ := reflect.TypeFor[In]()
	if k := typ.Kind(); k != reflect.Struct && k != reflect.Map {
		return nil, fmt.Errorf("its arguments must be a struct or a map, not %v", typ)
	}
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(schema)
}

// Arguments decodes the arguments of a function. They must match its schema.
func Arguments[In any](args []byte) (in In, err error) {
	if err = json.Unmarshal(args, &in); err == nil {
		return in, nil
	}
	var again In
	if json.Unmarshal(whole(args), &again) == nil {
		return again, nil
	}
	return in, misfit(err)
}

// misfit returns an error that names the member that does not fit its Go type, for example because
// it is out of range, without naming the type.
func misfit(err error) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return fmt.Errorf("the arguments are not valid: member %q is out of range", "/"+strings.ReplaceAll(te.Field, ".", "/"))
	}
	return errors.New("the arguments are not valid")
}

// ResultOf makes the result of a call from what its function returned.
func ResultOf(inv *agentproto.Invocation, out any) (*agentproto.ToolResult, error) {
	r := new(agentproto.ToolResult)
	switch out := out.(type) {
	case *agentproto.ToolResult:
		if out == nil {
			return nil, fmt.Errorf("the tool returned no result")
		}
		*r = *out
	case agentproto.Content:
		r.Content = []agentproto.Content{out}
	case []agentproto.Content:
		r.Content = append([]agentproto.Content{}, out...)
	default:
		text, err := textOf(out)
		if err != nil {
			return nil, err
		}
		r.Text = &text
	}
	r.GroupID, r.ID, r.CallID = inv.GroupID, inv.ID, inv.CallID
	return r, nil
}

// textOf returns a string unchanged and any other value as JSON.
func textOf(out any) (string, error) {
	if v := reflect.ValueOf(out); v.Kind() == reflect.String {
		return strings.ToValidUTF8(v.String(), "\uFFFD"), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is read by a model
	if err := e.Encode(out); err != nil {
		return "", fmt.Errorf("the result cannot be encoded: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
