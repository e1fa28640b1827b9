package audit

import (
	"reflect"
	"strings"
)

// hidden stands where the value of a key that sounds secret was.
const hidden = "[REDACTED]"

// secretKeys are parts of keys, in lower case without - and _. It hides too much rather than too little: a context is
// whatever a caller had at hand, so nobody knows what "tokenCount" holds.
var secretKeys = []string{
	"apikey", "apisecret", "token", "passw", "passphrase", "secret", "private", "authorization", "credential", "cookie",
	"accesskey", "email", "phonenumber", "ssn",
}

// RedactContext returns a copy of a free-form context in which values of keys that sound secret are hidden, at any depth.
func RedactContext(context map[string]any) map[string]any {
	out := make(map[string]any, len(context))
	for key, value := range context {
		out[key] = redactValue(key, value)
	}
	return out
}

func redactValue(key string, value any) any {
	if soundsSecret(key) {
		return hidden
	}
	switch v := value.(type) {
	case map[string]any:
		return RedactContext(v)
	case map[string]string:
		out := make(map[string]any, len(v))
		for k, s := range v {
			out[k] = redactValue(k, s)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = redactValue("", v[i])
		}
		return out
	case error:
		return v.Error()
	}
	return value
}

var bare = strings.NewReplacer("-", "", "_", "", " ", "")

func soundsSecret(key string) bool {
	key = bare.Replace(strings.ToLower(key))
	for _, part := range secretKeys {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// cleaned returns a copy of v in which clean was applied to every string, keys of maps included. Structure stays, so that
// what is written is still the document that it was.
func cleaned[T any](v T, clean func(string) string) T {
	var out T
	to := reflect.ValueOf(&out).Elem()
	copyClean(to, reflect.ValueOf(&v).Elem(), clean, deepest)
	return out
}

// deepest is how deep a value is followed; what lies below is left out, so that a value that contains itself has an end.
const deepest = 32

func copyClean(to, from reflect.Value, clean func(string) string, depth int) {
	if depth == 0 {
		return
	}
	depth--
	switch from.Kind() {
	case reflect.String:
		to.SetString(clean(from.String()))
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyClean(to.Elem(), from.Elem(), clean, depth)
		}
	case reflect.Interface:
		if !from.IsNil() {
			inner := reflect.New(from.Elem().Type()).Elem()
			copyClean(inner, from.Elem(), clean, depth)
			to.Set(inner)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyClean(to.Index(i), from.Index(i), clean, depth)
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for it := from.MapRange(); it.Next(); {
				key := reflect.New(from.Type().Key()).Elem()
				value := reflect.New(from.Type().Elem()).Elem()
				copyClean(key, it.Key(), clean, depth)
				copyClean(value, it.Value(), clean, depth)
				to.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		to.Set(from) // unexported fields, of times above all
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				copyClean(to.Field(i), from.Field(i), clean, depth)
			}
		}
	case reflect.Float32, reflect.Float64:
		to.SetFloat(finite(from.Float())) // JSON knows no others
	default:
		to.Set(from)
	}
}
