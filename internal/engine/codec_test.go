package engine_test

import (
	"encoding/json"
	"reflect"
)

type jsonCodec struct{}

func (jsonCodec) Check(reflect.Type) error { return nil }

func (jsonCodec) Append(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(dst, data...), err
}

func (jsonCodec) Decode(data []byte, p any) error { return json.Unmarshal(data, p) }
