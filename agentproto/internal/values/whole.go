package values

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// maxWhole is the largest integer up to which a float64 represents every integer.
const maxWhole = 1 << 53

// whole returns arguments with numbers such as 2.0 and 1e3 written as integers. In JSON Schema they
// are integers, and a model may write them so (case W10); the decoder does not accept them for Go's
// integer types.
func whole(args []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return args
	}
	out, err := json.Marshal(wholeIn(v))
	if err != nil {
		return args
	}
	return out
}

func wholeIn(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = wholeIn(x)
		}
	case []any:
		for i, x := range v {
			v[i] = wholeIn(x)
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") && f == math.Trunc(f) && math.Abs(f) <= maxWhole {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	}
	return v
}
