package conformance;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads JSON (RFC 8259) by recursive descent; the JDK has no reader. Objects become Fields, arrays
 * lists; a number without fraction and exponent becomes a Long, any other one a Double: the vectors
 * tell 1 from 1.0.
 */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** The only value of a document. */
  static Object read(String text) {
    final Json json = new Json(text);
    final Object value = json.value();
    json.skipSpace();
    if (json.at != text.length()) {
      throw json.wrong("the end");
    }
    return value;
  }

  private Object value() {
    skipSpace();
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return string();
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Fields object() {
    final Map<String, Object> fields = new LinkedHashMap<>();
    expect('{');
    if (!taken('}')) {
      do {
        skipSpace();
        final String name = string();
        expect(':');
        fields.put(name, value());
      } while (taken(','));
      expect('}');
    }
    return new Fields(fields);
  }

  private List<Object> array() {
    final List<Object> items = new ArrayList<>();
    expect('[');
    if (!taken(']')) {
      do {
        items.add(value());
      } while (taken(','));
      expect(']');
    }
    return items;
  }

  private String string() {
    final StringBuilder made = new StringBuilder();
    expect('"');
    while (peek() != '"') {
      final char next = text.charAt(at++);
      made.append(next == '\\' ? escaped() : next);
    }
    ++at;
    return made.toString();
  }

  private char escaped() {
    final char kind = peek();
    ++at;
    switch (kind) {
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        at += 4;
        return (char) Integer.parseInt(text, at - 4, at, 16);
      default:
        return kind;
    }
  }

  private Object number() {
    final int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
      ++at;
    }
    final String digits = text.substring(start, at);
    if (digits.isEmpty()) {
      throw wrong("a value");
    }
    return digits.matches("-?[0-9]+") ? (Object) Long.valueOf(digits) : Double.valueOf(digits);
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw wrong(word);
    }
    at += word.length();
    return value;
  }

  private char peek() {
    if (at == text.length()) {
      throw wrong("more");
    }
    return text.charAt(at);
  }

  private boolean taken(char wanted) {
    skipSpace();
    if (peek() != wanted) {
      return false;
    }
    ++at;
    return true;
  }

  private void expect(char wanted) {
    if (!taken(wanted)) {
      throw wrong("'" + wanted + "'");
    }
  }

  private void skipSpace() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      ++at;
    }
  }

  private IllegalArgumentException wrong(String wanted) {
    return new IllegalArgumentException("expected " + wanted + " at character " + at + " of JSON: "
        + text.substring(Math.max(0, at - 20), Math.min(text.length(), at + 20)));
  }
}
