package agenttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Protocol is a provider's API.
type Protocol string

// The protocols.
const (
	OpenAIChat      Protocol = "openai-chat"
	OpenAIResponses Protocol = "openai-responses"
	Anthropic       Protocol = "anthropic"
	Gemini          Protocol = "gemini"
)

// Protocols lists every protocol once.
var Protocols = []Protocol{OpenAIChat, OpenAIResponses, Anthropic, Gemini}

// dialect implements a protocol.
type dialect struct {
	protocol Protocol
	ends     []string // suffixes of the paths that request an answer
	read     func(path string, body object) conversation
	document func(reply) any             // an answer in one piece
	frames   func(reply) []frame         // the same answer as a stream
	event    func(wireError) []frame     // an error inside a stream
	failure  func(perProvider) wireError // selects this provider's text for a failure
}

var dialects = []dialect{
	{OpenAIChat, []string{"/chat/completions"}, readChat, chatDocument, chatFrames, chatError, perProvider.ofOpenAI},
	{
		OpenAIResponses,
		[]string{"/responses"},
		readResponses, responsesDocument, responsesFrames, responsesError,
		perProvider.ofOpenAI,
	},
	{
		Anthropic,
		[]string{"/messages"},
		readMessages, messagesDocument, messagesFrames, messagesError,
		perProvider.ofAnthropic,
	},
	{
		Gemini,
		[]string{":generateContent", ":streamGenerateContent"},
		readContents, contentsDocument, contentsFrames,
		contentsError, perProvider.ofGemini,
	},
}

// dialectOf returns the dialect for a path that requests an answer, or nil for other paths.
func dialectOf(path string) *dialect {
	for i := range dialects {
		for _, end := range dialects[i].ends {
			if strings.HasSuffix(path, end) {
				return &dialects[i]
			}
		}
	}
	return nil
}

// object is a JSON object.
type object = map[string]any

// conversation is the content of a request, in any protocol.
type conversation struct {
	model   string
	stream  bool
	bare    bool // set if the stream is one JSON array, as from Gemini without alt=sse
	tools   []tool
	results int    // number of tool results
	text    string // all text from people and the system
	bytes   int    // size of the request
}

// reply is an answer from the model.
type reply struct {
	model  string
	text   string
	calls  []call
	finish finish
	in     int // tokens
	out    int
}

// finish is the reason an answer ended.
type finish int

const (
	finishStop finish = iota
	finishTools
	finishLength
	finishFilter
)

// of returns a protocol's name for f. The arguments are the protocol's names for the four constants.
func (f finish) of(stop, tools, length, filter string) string {
	return [...]string{stop, tools, length, filter}[f]
}

// call is one tool call.
type call struct {
	id   string
	name string
	args object
}

func (c call) arguments() string { return encode(c.args) }

// frame is one event of a stream.
type frame struct {
	event string // name of the event, or ""
	data  string
}

func (f frame) String() string {
	if f.event == "" {
		return "data: " + f.data + "\n\n"
	}
	return "event: " + f.event + "\ndata: " + f.data + "\n\n"
}

// named returns a frame with the type of its data as the event name.
func named(data object) frame { return frame{event: fmt.Sprint(data["type"]), data: encode(data)} }

func unnamed(data any) frame { return frame{data: encode(data)} }

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail: it encodes only this package's own bodies
	}
	return string(data)
}

// parts splits text in two, so that a stream has several events.
func parts(text string) []string {
	at := strings.LastIndex(text[:len(text)/2], " ") + 1
	if at == 0 {
		return []string{text}
	}
	return []string{text[:at], text[at:]}
}

// wireError is an error as sent by one provider.
type wireError struct {
	status int
	body   string
	header http.Header
}

// perProvider is one failure in each provider's format. OpenAI's two protocols have the same format.
type perProvider struct{ openAI, anthropic, gemini wireError }

func (p perProvider) ofOpenAI() wireError    { return p.openAI }
func (p perProvider) ofAnthropic() wireError { return p.anthropic }
func (p perProvider) ofGemini() wireError    { return p.gemini }

// texts returns the text of a field. The field is a string, an object with the field text, or a list of these.
func texts(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var all []string
		for _, each := range v {
			all = append(all, texts(each))
		}
		return strings.Join(all, "\n")
	case object:
		return texts(v["text"])
	}
	return ""
}

// objects returns the objects in a list.
func objects(v any) []object {
	list, _ := v.([]any)
	var out []object
	for _, each := range list {
		if o, ok := each.(object); ok {
			out = append(out, o)
		}
	}
	return out
}

func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}

func inner(o object, name string) object {
	in, _ := o[name].(object)
	return in
}
