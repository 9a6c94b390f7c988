import{render}from"preact";render(<p>hi</p>,document.body);
